"""Statistics over seeds: the mean and spread of a row's runs, and the difference between two rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from palbert.reporting.student_t import student_t


@dataclass(frozen=True)
class Spread:
    """The scores of several seeds."""

    mean: float
    deviation: float | None
    """Standard deviation over seeds; None for one seed."""
    values: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + (f" ± {self.deviation:.3f}" if self.deviation is not None else "")


@dataclass(frozen=True)
class MeanDifference:
    """The mean of one row minus the mean of another, with its 95 % interval."""

    value: float
    low: float | None
    """None if the spread is unknown: one seed, or identical scores for all seeds."""
    high: float | None

    def excludes(self, value: float) -> bool:
        """Whether a value lies outside the interval; False if there is no interval."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def __str__(self) -> str:
        interval = f" ({self.low:+.3f} … {self.high:+.3f})" if self.low is not None else ""
        return f"{self.value:+.3f}{interval}"


def spread(values: Sequence[float]) -> Spread:
    """Return the mean and standard deviation over seeds."""
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, tuple(values))


def mean_difference(first: Sequence[float], second: Sequence[float]) -> MeanDifference:
    """Return the difference of the means with Welch's interval.

    The samples are treated as independent: runs of different rows share nothing but the number of their seed.
    """
    difference = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:
        return MeanDifference(difference, None, None)
    parts = [(variance(values) / len(values), len(values) - 1) for values in (first, second)]
    squared_error = sum(part for part, _ in parts)
    if squared_error == 0:  # a few identical scores do not prove that all seeds would agree
        return MeanDifference(difference, None, None)
    freedom = squared_error**2 / sum(part**2 / own for part, own in parts)
    half = student_t(freedom) * math.sqrt(squared_error)
    return MeanDifference(difference, difference - half, difference + half)
