"""Thresholds: above which probability the answer is yes, chosen by a score on labelled rows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from palbert.metrics import Values

Criterion = Literal["f1", "accuracy", "balanced"]
HALF = 0.5


def best_thresholds(probabilities: NDArray[np.float64], gold: Values, by: Criterion) -> tuple[float, ...]:
    """Return the threshold of each yes-or-no decision with the best score.

    Args:
        probabilities: Those of yes, (rows, decisions).
        gold: 1 for yes and 0 for no, (rows, decisions).
        by: F1 of yes, accuracy, or balanced accuracy: the mean of the shares of yes and of no that are found.
    """
    return tuple(best_threshold(*column, by) for column in zip(probabilities.T, gold.T, strict=True))


def best_threshold(probabilities: NDArray[np.float64], gold: Values, by: Criterion) -> float:
    """Return the best threshold of one decision, (rows,); ½ where all rows have the same label.

    It lies midway between the probabilities of two rows. Of equally good ones, it is the one closest to ½.
    """
    positive = int(np.count_nonzero(gold == 1))
    if positive in (0, len(gold)):
        return HALF
    order = np.argsort(-probabilities, kind="stable")
    ordered = probabilities[order]
    found = np.concatenate([[0], np.cumsum(gold[order] == 1)])  # true positives if the first 0, 1, … rows are yes
    edges = np.concatenate([[1.0], ordered, [0.0]])
    thresholds = (edges[:-1] + edges[1:]) / 2
    scores = _scores(found, np.arange(len(gold) + 1), positive, len(gold) - positive, by)
    scores[1:-1][ordered[:-1] == ordered[1:]] = -1.0  # no threshold separates equal probabilities
    scores[(thresholds <= 0) | (thresholds >= 1)] = -1.0
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return float(thresholds[best[np.argmin(np.abs(thresholds[best] - HALF))]])


def _scores(
    found: NDArray[np.int64], given: NDArray[np.int64], positive: int, negative: int, by: Criterion
) -> NDArray[np.float64]:
    """Return the score for each number of rows that are answered with yes."""
    wrongly = given - found
    if by == "f1":
        return np.asarray(2 * found / np.maximum(given + positive, 1), dtype=np.float64)
    if by == "accuracy":
        return np.asarray((found + negative - wrongly) / (positive + negative), dtype=np.float64)
    return np.asarray((found / positive + 1 - wrongly / negative) / 2, dtype=np.float64)
