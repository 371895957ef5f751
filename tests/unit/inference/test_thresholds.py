"""Thresholds: as good as the best of all, in the middle of a gap, and ½ where nothing can be learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from palbert.inference.thresholds import best_threshold, best_thresholds

SCORES: dict[Any, Any] = {"f1": f1_score, "accuracy": accuracy_score, "balanced": balanced_accuracy_score}


@pytest.mark.parametrize("by", list(SCORES))
@pytest.mark.parametrize("seed", range(5))
def test_no_other_threshold_has_a_better_score(by: Any, seed: int) -> None:
    generator = np.random.default_rng(seed)
    probabilities = generator.uniform(size=60).round(1 + seed % 3)  # some are equal
    gold = (generator.uniform(size=60) < probabilities**2).astype(np.int64)
    score = SCORES[by]
    chosen = score(gold, probabilities > best_threshold(probabilities, gold, by))
    every = [score(gold, probabilities > threshold) for threshold in np.linspace(0.001, 0.999, 999)]
    assert chosen == pytest.approx(max(every))


def test_the_threshold_is_midway_between_two_rows() -> None:
    assert best_threshold(np.array([0.1, 0.2, 0.4, 0.9]), np.array([0, 0, 1, 1]), "f1") == pytest.approx(0.3)


def test_of_equally_good_thresholds_the_one_closest_to_a_half_is_taken() -> None:
    probabilities, gold = np.array([0.1, 0.3, 0.45, 0.9]), np.array([0, 1, 0, 1])
    assert best_threshold(probabilities, gold, "accuracy") == pytest.approx(0.675)


@pytest.mark.parametrize("label", [0, 1])
def test_rows_of_one_label_leave_the_threshold_at_a_half(label: int) -> None:
    assert best_threshold(np.array([0.2, 0.9]), np.array([label, label]), "f1") == 0.5


def test_a_threshold_is_between_0_and_1_even_for_certain_rows() -> None:
    assert 0 < best_threshold(np.array([0.0, 1.0, 1.0, 1.0]), np.array([1, 0, 0, 1]), "f1") < 1


def test_every_class_has_a_threshold_of_its_own() -> None:
    probabilities = np.array([[0.1, 0.8], [0.3, 0.9], [0.2, 0.7]])
    gold = np.array([[0, 0], [1, 1], [0, 0]])
    assert best_thresholds(probabilities, gold, "f1") == pytest.approx((0.25, 0.85))
