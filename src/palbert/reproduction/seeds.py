"""Statistics over seeds: the mean and spread of a row's runs, and the difference between two rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

import numpy as np

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


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
    half = _student_t(freedom) * math.sqrt(squared_error)
    return MeanDifference(difference, difference - half, difference + half)


def _student_t(freedom: float) -> float:
    """Interpolate t linearly in 1 / freedom; the line lies slightly above t, so no interval is too narrow."""
    inverse = 1 / np.arange(len(T_975), 0, -1)
    return float(np.interp(1 / freedom, inverse, T_975[::-1]))
