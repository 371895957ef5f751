"""Student's t: intervals of means of few values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def student_t(freedom: float) -> float:
    """Interpolate t linearly in 1 / freedom; the line lies slightly above t, so no interval is too narrow."""
    inverse = 1 / np.arange(len(T_975), 0, -1)
    return float(np.interp(1 / freedom, inverse, T_975[::-1]))


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of two or more values, as if they were independent and normal."""
    half = student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half
