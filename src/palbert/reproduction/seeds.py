"""Seeds: mean and spread of runs that differ in their seed alone, and the difference between two sets of them."""

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
    """What several seeds gave."""

    mean: float
    deviation: float | None
    """Standard deviation over seeds; None for one seed."""
    values: tuple[float, ...]


@dataclass(frozen=True)
class Gap:
    """A mean minus another, with its 95 % interval."""

    difference: float
    low: float | None
    """None where nothing is known of the spread: one seed, or all of them with the very same score."""
    high: float | None

    def excludes(self, value: float) -> bool:
        """Whether a value lies outside of the interval; never where there is none."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


def spread(values: Sequence[float]) -> Spread:
    """Return mean and standard deviation over seeds."""
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, tuple(values))


def _student(freedom: float) -> float:
    """Return t for any freedom: along lines in 1 / freedom, which lie a little above it; no interval is too narrow."""
    inverse = 1 / np.arange(len(T_975), 0, -1)
    return float(np.interp(1 / freedom, inverse, T_975[::-1]))


def gap(first: Sequence[float], second: Sequence[float]) -> Gap:
    """Return the difference of the means with Welch's interval: two runs of one seed have nothing else in common."""
    difference = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:
        return Gap(difference, None, None)
    parts = [(variance(values) / len(values), len(values) - 1) for values in (first, second)]
    squared = sum(part for part, _ in parts)
    if squared == 0:  # a few equal scores are no proof that all would be equal
        return Gap(difference, None, None)
    freedom = squared**2 / sum(part**2 / own for part, own in parts)
    half = _student(freedom) * math.sqrt(squared)
    return Gap(difference, difference - half, difference + half)
