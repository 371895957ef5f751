"""Calibration: whether probabilities are as often right as they say, in bins, and as one number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palbert.metrics.definition import Values, metric
from palbert.metrics.probabilities import class_columns

BINS = 15
"""Bins of equal width between 0 and 1, as in arXiv:1706.04599."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Reliability:
    """How confident predictions are and how often they are right, in bins of equal width; empty bins are left out."""

    confidence: Numbers
    """The mean confidence in each bin."""
    right: Numbers
    """The share of right predictions in each bin."""
    rows: NDArray[np.int64]
    """How many predictions each bin has."""

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |right − confidence| over all predictions, bin by bin."""
        return float(np.sum(self.rows * np.abs(self.right - self.confidence)) / max(self.rows.sum(), 1))


def reliability(confidence: Numbers, right: NDArray[np.bool_], *, bins: int = BINS) -> Reliability:
    """Sort predictions into bins by their confidence."""
    places = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)  # bins include their upper end
    rows = np.bincount(places, minlength=bins)
    sums = (np.bincount(places, weights=values, minlength=bins) for values in (confidence, right.astype(np.float64)))
    mean_confidence, mean_right = (values[rows > 0] / rows[rows > 0] for values in sums)
    return Reliability(mean_confidence, mean_right, rows[rows > 0])


def claims(gold: Values, probabilities: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return what probabilities claim and whether it is so, one claim each.

    Of one class per row, the claim is that the most likely class is right (arXiv:1706.04599). Where a row may have
    several classes, each probability is a claim that the row has the class.
    """
    if gold.ndim == 2:
        return probabilities.reshape(-1), gold.reshape(-1) == 1
    return probabilities.max(axis=1), probabilities.argmax(axis=1) == gold


@metric(higher_is_better=False, of_probabilities=True)
def ece(gold: Values, probabilities: Values) -> float:
    """Return the expected calibration error: how far probabilities are from the share of right answers, in 15 bins."""
    _, shares = class_columns(gold, probabilities)
    return reliability(*claims(gold, shares)).error
