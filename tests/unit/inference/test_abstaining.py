"""Abstaining: where the answer is less likely than asked, for one class per row and for several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palbert.errors import DataError
from palbert.inference.abstaining import abstentions, check_confidence
from palbert.targets import Decoded
from palbert.tasks.choices import Component, make_target
from palbert.tasks.spec import Task

CLASSES = make_target(Component(name="classes"), classes=("a", "b"), range=None)
MANY = make_target(Component(name="multilabel"), classes=("a", "b"), range=None)


def test_answers_below_the_confidence_are_not_given() -> None:
    decoded = Decoded(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.45, 0.55], [0.2, 0.8]]))
    assert abstentions(CLASSES, decoded, 0.8) == [False, True, False]
    assert abstentions(CLASSES, decoded, None) == [None] * 3


def test_the_confidence_is_that_of_the_answer_also_with_a_low_threshold() -> None:
    decoded = Decoded(np.array([1]), np.array([[0.7, 0.3]]))
    assert abstentions(CLASSES, decoded, 0.5) == [True]


def test_of_several_classes_the_least_certain_decision_counts() -> None:
    decoded = Decoded(np.array([[1, 0], [1, 0]]), np.array([[0.9, 0.05], [0.95, 0.4]]))
    assert abstentions(MANY, decoded, 0.8) == [False, True]


@pytest.mark.parametrize("value", [-0.1, 1.1, "high", True, float("nan")])
def test_only_probabilities_are_confidences(value: Any) -> None:
    with pytest.raises(DataError, match="expected a probability from 0 to 1"):
        check_confidence(value)


def test_a_number_has_no_confidence() -> None:
    own = Task.model_validate({"name": "own", "kind": "single", "text": "text", "target": "number"})
    with pytest.raises(DataError, match="the answers of task 'own' have no probabilities"):
        check_confidence(0.8, own)
    check_confidence(None, own)
