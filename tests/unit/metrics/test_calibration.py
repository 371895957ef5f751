"""Calibration error: 0 for probabilities that are right as often as they say, and what is defined about it."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.metrics import find_metric
from palbert.metrics.calibration import claims, ece, reliability


def by_hand(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """Add up the bins one by one, as equation 3 of arXiv:1706.04599."""
    total = 0.0
    for number in range(bins):
        inside = (confidence > number / bins) & (confidence <= (number + 1) / bins)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return float(total)


def test_the_error_is_the_sum_over_bins() -> None:
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(4), size=300)
    gold = generator.integers(0, 4, 300)
    expected = by_hand(probabilities.max(axis=1), probabilities.argmax(axis=1) == gold)
    assert ece(gold, probabilities) == pytest.approx(expected)


def test_probabilities_that_hold_have_a_small_error_and_overconfident_ones_a_large_one() -> None:
    generator = np.random.default_rng(1)
    yes = generator.uniform(size=20_000)
    gold = (generator.uniform(size=20_000) < yes).astype(np.int64)
    sharp = yes**4 / (yes**4 + (1 - yes) ** 4)
    assert ece(gold, np.stack([1 - yes, yes], axis=1)) < 0.015
    assert ece(gold, np.stack([1 - sharp, sharp], axis=1)) > 0.1


def test_certain_and_right_is_0_and_certain_and_wrong_is_1() -> None:
    certain = np.array([[0.0, 1.0], [0.0, 1.0]])
    assert ece(np.array([1, 1]), certain) == 0.0
    assert ece(np.array([0, 0]), certain) == 1.0


def test_with_several_classes_per_row_every_probability_is_a_claim() -> None:
    gold, probabilities = np.array([[1, 0], [0, 0]]), np.array([[0.9, 0.2], [0.4, 0.0]])
    confidence, right = claims(gold, probabilities)
    assert confidence.tolist() == [0.9, 0.2, 0.4, 0.0] and right.tolist() == [True, False, False, False]
    assert ece(gold, probabilities) == pytest.approx((0.1 + 0.2 + 0.4 + 0.0) / 4)


def test_bins_hold_every_row_once_and_empty_ones_are_left_out() -> None:
    found = reliability(np.array([0.0, 1.0, 1 / 15, 0.5]), np.array([False, True, True, False]))
    assert found.rows.tolist() == [2, 1, 1] and found.right.tolist() == [0.5, 0.0, 1.0]


def test_a_lower_error_is_better_in_the_overall_score() -> None:
    metric = find_metric("ece")
    assert metric.of_probabilities and not metric.higher_is_better
    assert metric.scaled(0.0) == 1.0 and metric.scaled(1.0) == 0.0
