"""Metrics of numbers: laws, constants, and predictions that are not numbers."""

from __future__ import annotations

import numpy as np
import pytest

from palbert import metrics
from palbert.errors import DataError
from palbert.registry import METRICS, TARGETS

NUMBERS = np.array([0.0, 1.5, 3.0, 5.0])
CONSTANT = np.full(4, 0.1)
NUMBER = TARGETS["number"]


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_a_correlation_with_a_constant_side_is_zero(name: str) -> None:
    for gold, predicted in ((NUMBERS, CONSTANT), (CONSTANT, NUMBERS), (CONSTANT, CONSTANT)):
        assert METRICS[name](gold, predicted) == 0.0


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_a_correlation_ignores_scale_and_shift_and_follows_the_sign(name: str) -> None:
    assert METRICS[name](NUMBERS, 100.0 * NUMBERS - 7.0) == pytest.approx(1.0)
    assert METRICS[name](NUMBERS, -NUMBERS) == pytest.approx(-1.0)


def test_spearman_depends_only_on_the_order() -> None:
    assert metrics.spearman(NUMBERS, np.exp(NUMBERS)) == pytest.approx(1.0)


def test_r2_of_the_mean_is_zero_and_a_constant_shift_costs_no_explained_variance() -> None:
    assert metrics.r2(NUMBERS, np.full(4, NUMBERS.mean())) == pytest.approx(0.0)
    assert metrics.r2(NUMBERS, NUMBERS + 3.0) < 0.0
    assert metrics.explained_variance(NUMBERS, NUMBERS + 3.0) == pytest.approx(1.0)


def test_constant_labels_are_explained_by_exact_predictions_only() -> None:
    assert (metrics.r2(CONSTANT, CONSTANT), metrics.r2(CONSTANT, NUMBERS)) == (1.0, 0.0)


@pytest.mark.parametrize("name", [*NUMBER.metrics, *NUMBER.other_metrics])
def test_diverged_predictions_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"in 1 of 4 rows.*lower learning rate"):
        METRICS[name](NUMBERS, np.array([0.0, np.nan, 1.0, 2.0]))
