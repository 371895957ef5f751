"""Bootstrap: how much a score would vary with other rows of the same kind.

Rows are resampled with replacement many times, and the metric is computed each time. The spread of these values is
the uncertainty that comes from the size of the split, not from the training seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palbert.metrics import Metric, Values


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two sets of predictions on the same rows."""

    difference: float
    """The metric of the first set minus that of the second, on all rows."""
    low: float
    high: float
    p_value: float
    """Two-sided: how often resampled rows reverse or cancel the difference."""


def paired(
    gold: Values,
    a: Values,
    b: Values,
    metric: Metric,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> PairedDifference:
    """Compare two sets of predictions on the same rows, with the same resamples for both.

    Args:
        gold: True values.
        a: The first set of predictions.
        b: The second set of predictions.
        metric: The metric.
        resamples: How many times the rows are resampled.
        seed: The same seed gives the same result.
        level: The share of resampled differences in the interval.

    Returns:
        The difference a minus b, its interval and its p-value, which is at least 2 / (resamples + 1): a finite
        number of resamples cannot show less.
    """
    first, second = distribution(gold, [a, b], metric, resamples=resamples, seed=seed)
    differences = first - second
    estimate = metric(gold, a) - metric(gold, b)
    low, high = bounds(differences, estimate, level=level)
    # Where the metric is not defined, a resample speaks against a difference in either direction.
    # The observed sample counts as one more resample, so that p is never 0.
    not_above = (np.count_nonzero(~(differences > 0)) + 1) / (resamples + 1)
    not_below = (np.count_nonzero(~(differences < 0)) + 1) / (resamples + 1)
    return PairedDifference(estimate, low, high, min(1.0, 2.0 * min(not_above, not_below)))


def distribution(
    gold: Values, predictions: Sequence[Values], metric: Metric, *, resamples: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    """Return the metric of each set of predictions on each resample, of shape (sets, resamples).

    It is NaN where a user's own metric is not defined for the rows that were drawn.
    """
    generator = np.random.default_rng(seed)
    scorers = [metric.resampler(gold, predicted) for predicted in predictions]
    values = np.empty((len(predictions), resamples))
    for draw in range(resamples):
        rows = generator.integers(len(gold), size=len(gold))
        for index, score in enumerate(scorers):
            values[index, draw] = score(rows)
    return values


def bounds(values: NDArray[np.float64], estimate: float, *, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of the central `level` of resampled values, widened if necessary to contain the estimate."""
    defined = values[np.isfinite(values)]
    if not len(defined):
        return estimate, estimate
    low, high = np.quantile(defined, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return min(float(low), estimate), max(float(high), estimate)
