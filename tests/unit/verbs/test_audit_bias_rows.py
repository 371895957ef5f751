"""Rows of an audit of bias: which outputs are compared, and what counts as another answer."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.targets import Target
from palbert.targets.binary import Binary
from palbert.targets.classes import Classes
from palbert.targets.multilabel import Multilabel
from palbert.targets.number import Number
from palbert.verbs.audit_bias_rows import _flips, compared_columns


@pytest.mark.parametrize(
    ("target", "columns"),
    [
        (Binary(classes=("no", "yes")), [1]),
        (Classes(classes=("no", "yes")), [1]),
        (Classes(classes=("a", "b", "c")), [0, 1, 2]),
        (Multilabel(classes=("a", "b")), [0, 1]),
        (Number(range=(0, 5)), [0]),
    ],
)
def test_of_two_classes_one_is_compared(target: Target, columns: list[int]) -> None:
    assert compared_columns(target) == columns


def test_answers_of_classes_flip_if_they_differ() -> None:
    classes, labels = Classes(classes=("a", "b")), Multilabel(classes=("a", "b"))
    found, said = _flips(classes, np.array([0, 1]), np.array([0, 0]), everything=np.array([0, 1]))
    assert found.tolist() == [False, True] and said == "another answer"
    found, _ = _flips(labels, np.array([[0, 1], [1, 1]]), np.array([[1, 1], [1, 1]]), everything=np.zeros((1, 2)))
    assert found.tolist() == [True, False]


@pytest.mark.parametrize("range", [(0.0, 5.0), None])
def test_numbers_flip_beyond_a_tenth_of_their_range(range: tuple[float, float] | None) -> None:
    everything = np.array([0.0, 5.0])
    found, said = _flips(Number(range=range), np.array([1.0, 1.0]), np.array([1.4, 1.6]), everything=everything)
    assert found.tolist() == [False, True] and "more than 0.5" in said
