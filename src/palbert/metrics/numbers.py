"""Metrics of numbers: how far predictions are off, and how well they follow the labels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from palbert.metrics.definition import UNBOUNDED, Values, check_rows, metric


@metric(range=(-1.0, 1.0))
def pearson(gold: Values, predicted: Values) -> float:
    """Return the linear correlation; 0.0 when either side is constant."""
    check_rows(gold, predicted, numbers=True)
    return _correlation(gold.astype(np.float64), predicted.astype(np.float64))


@metric(range=(-1.0, 1.0))
def spearman(gold: Values, predicted: Values) -> float:
    """Return the correlation of the ranks, ties sharing their mean rank; 0.0 when either side is constant."""
    check_rows(gold, predicted, numbers=True)
    return _correlation(_average_ranks(gold), _average_ranks(predicted))


@metric(range=(-math.inf, 1.0))
def r2(gold: Values, predicted: Values) -> float:
    """Return the share of the labels' variance that is explained; for constant labels 1.0 if all are right, or 0.0."""
    check_rows(gold, predicted, numbers=True)
    return _explained(gold, predicted - gold)


@metric(range=(-math.inf, 1.0))
def explained_variance(gold: Values, predicted: Values) -> float:
    """Return r2 without the part of the error that is the same for all rows."""
    check_rows(gold, predicted, numbers=True)
    return _explained(gold, predicted - gold - np.mean(predicted - gold))


@metric(name="mse", higher_is_better=False, range=UNBOUNDED)
def mean_squared_error(gold: Values, predicted: Values) -> float:
    """Return the mean of the squared differences."""
    check_rows(gold, predicted, numbers=True)
    return float(np.mean(np.square(predicted - gold)))


@metric(name="rmse", higher_is_better=False, range=UNBOUNDED)
def root_mean_squared_error(gold: Values, predicted: Values) -> float:
    """Return the square root of the mean of the squared differences."""
    return math.sqrt(mean_squared_error(gold, predicted))


@metric(name="mae", higher_is_better=False, range=UNBOUNDED)
def mean_absolute_error(gold: Values, predicted: Values) -> float:
    """Return the mean of the absolute differences."""
    check_rows(gold, predicted, numbers=True)
    return float(np.mean(np.abs(predicted - gold)))


@metric(higher_is_better=False, range=UNBOUNDED)
def median_absolute_error(gold: Values, predicted: Values) -> float:
    """Return the median of the absolute differences."""
    check_rows(gold, predicted, numbers=True)
    return float(np.median(np.abs(predicted - gold)))


def _explained(gold: Values, errors: Values) -> float:
    """Return 1 - the sum of squared errors / the sum of squares of the labels around their mean."""
    if gold.min() == gold.max():
        return 1.0 if not errors.any() else 0.0
    return 1.0 - float(np.sum(np.square(errors)) / np.sum(np.square(gold - gold.mean())))


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    # The mean of equal floats can differ from them in the last digit, so constancy is asked of the values.
    if first.min() == first.max() or second.min() == second.max():
        return 0.0
    first, second = first - first.mean(), second - second.mean()
    # Plain sums: BLAS would start threads for every resample of a bootstrap, which is far slower on busy cores.
    scale = float(np.sqrt(np.sum(first * first)) * np.sqrt(np.sum(second * second)))
    return float(np.clip(np.sum(first * second) / scale, -1.0, 1.0)) if scale else 0.0


def _average_ranks(values: Values) -> NDArray[np.float64]:
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last_rank - (counts - 1) / 2.0)[group]
    return ranks
