"""Strata: alike labels have one stratum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palbert.data.dataset import Dataset
from palbert.data.ragged import Texts
from palbert.data.strata import strata_of
from palbert.targets import Target
from palbert.tasks.choices import Component, make_target


def rows(labels: Any) -> Dataset:
    texts = Texts.from_rows([str(number) for number in range(len(labels))])
    return Dataset("own", "train", texts, (texts,), (), np.array(labels), 0, 0, {})


def target(name: str, classes: tuple[str, ...] = ()) -> Target:
    return make_target(Component(name=name), classes=classes, range=None)


def test_a_class_is_a_stratum() -> None:
    assert strata_of(rows([2, 0, 2, 1]), target("classes", ("a", "b", "c"))).tolist() == [2, 0, 2, 1]


def test_numbers_are_divided_by_quantiles() -> None:
    labels = np.random.default_rng(0).normal(size=1000)
    strata = strata_of(rows(labels), target("number"))
    assert np.bincount(strata).tolist() == pytest.approx([100] * 10, abs=1)
    assert all(labels[strata == low].max() < labels[strata == low + 1].min() for low in range(9))


@pytest.mark.parametrize("labels", [[0.5] * 50, np.arange(12) / 2, [0.0] * 90 + [0.5] * 3])
def test_few_or_equal_numbers_make_few_strata(labels: Any) -> None:
    strata = strata_of(rows(labels), target("number"))
    assert len(strata) == len(labels) and set(strata.tolist()) == set(range(strata.max() + 1))


def test_a_row_with_several_classes_belongs_to_the_rarest() -> None:
    labels = [[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 0], [0, 0, 0]]
    strata = strata_of(rows(labels), target("multilabel", ("a", "b", "c")))
    assert strata[2] == strata[3] and len(set(strata.tolist())) == 4


def test_rows_without_labels_are_one_stratum() -> None:
    bare = Dataset("own", "train", Texts.from_rows(["a", "b"]), (), (), None, 0, 0, {})
    assert strata_of(bare, target("number")).tolist() == [0, 0]
