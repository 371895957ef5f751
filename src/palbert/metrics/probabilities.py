"""Metrics of probabilities: how well they rank the rows of a class, and how much they can be relied on.

Probabilities are (rows, classes). Labels are class indices, (rows,), or 0 and 1 for each class, (rows, classes).
With one class per row and two classes, rankings are those of the second class, the positive one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from palbert.errors import DataError
from palbert.metrics.definition import POSITIVE, UNBOUNDED, Resampler, Values, check_finite, metric

Counts = NDArray[np.int64]
Curve = Callable[[Counts, Counts], float | None]
"""Scores a ranking by the positive and the negative rows at each distinct score, lowest first."""


class _Ranking:
    """The rows of one class sorted by score once, so that any resample of them is scored without sorting."""

    def __init__(self, positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> None:
        self.order = np.argsort(scores, kind="stable")
        ordered = scores[self.order]
        self.starts = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        self.positive = positive[self.order]

    def score(self, curve: Curve, times: Counts) -> float | None:
        """Score the ranking with every row counted as many times as `times` says."""
        ordered = times[self.order]
        positives = np.add.reduceat(ordered * self.positive, self.starts)
        return curve(positives, np.add.reduceat(ordered, self.starts) - positives)


def _area_under_roc(positives: Counts, negatives: Counts) -> float | None:
    """Return the share of pairs of a positive and a negative row in the right order; equal scores count half."""
    below = np.cumsum(negatives) - negatives
    pairs = int(positives.sum()) * int(negatives.sum())
    return float(np.sum(positives * (below + 0.5 * negatives)) / pairs) if pairs else None


def _area_under_precision(positives: Counts, negatives: Counts) -> float:
    """Add up precision times the gain in recall, going down the scores; equal scores count at once."""
    gains = positives[::-1]
    found, seen = np.cumsum(gains), np.cumsum(gains + negatives[::-1])
    if not found[-1]:
        return 0.0
    drawn = seen > 0  # the highest scores may not be in a resample
    return float(np.sum(gains[drawn] * found[drawn] / seen[drawn]) / found[-1])


def _rankings(curve: Curve, undefined: float) -> Callable[[Values, Values], Resampler]:
    """Return what prepares the mean of a curve over the classes where it is defined; `undefined` if it never is."""

    def prepare(gold: Values, probabilities: Values) -> Resampler:
        positive, scores = class_columns(gold, probabilities)
        if gold.ndim == 1 and scores.shape[1] == 2:
            positive, scores = positive[:, POSITIVE:], scores[:, POSITIVE:]
        rankings = [_Ranking(*column) for column in zip(positive.T, scores.T, strict=True)]

        def score(rows: NDArray[np.int64]) -> float:
            times = np.bincount(rows, minlength=len(gold))
            areas = [ranking.score(curve, times) for ranking in rankings]
            defined = [area for area in areas if area is not None]
            return float(np.mean(defined)) if defined else undefined

        return score

    return prepare


_prepare_roc = _rankings(_area_under_roc, 0.5)
_prepare_precision = _rankings(_area_under_precision, 0.0)


@metric(of_probabilities=True, resample=_prepare_roc)
def roc_auc(gold: Values, probabilities: Values) -> float:
    """Return the area under the ROC curve, as a mean over the classes that some rows have and some do not; else 0.5."""
    return _prepare_roc(gold, probabilities)(np.arange(len(gold)))


@metric(of_probabilities=True, resample=_prepare_precision)
def average_precision(gold: Values, probabilities: Values) -> float:
    """Return the area under precision by recall, as a mean over classes; 0.0 for a class that no row has."""
    return _prepare_precision(gold, probabilities)(np.arange(len(gold)))


@metric(higher_is_better=False, range=UNBOUNDED, of_probabilities=True)
def log_loss(gold: Values, probabilities: Values) -> float:
    """Return the mean of −log of the label's probability; with several classes per row, over rows and classes."""
    true, shares = class_columns(gold, probabilities)
    least = np.finfo(np.float64).eps  # a probability of 0 for the right class would cost infinitely much
    shares = np.clip(shares, least, 1.0 - least)
    if gold.ndim == 1:
        return float(-np.mean(np.log(shares[true])))
    return float(-np.mean(np.where(true, np.log(shares), np.log1p(-shares))))


@metric(higher_is_better=False, range=UNBOUNDED, of_probabilities=True)
def brier(gold: Values, probabilities: Values) -> float:
    """Return the mean squared error of the probabilities: summed over three or more classes, else of one."""
    true, shares = class_columns(gold, probabilities)
    squared = np.square(shares - true)
    return float(np.mean(squared.sum(axis=1)) if gold.ndim == 1 and shares.shape[1] > 2 else np.mean(squared))


def class_columns(gold: Values, probabilities: Values) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which rows have which class, and the probabilities, both (rows, classes)."""
    if len(gold) == 0:
        raise DataError("A metric needs at least one row, found none.")
    if len(gold) != len(probabilities) or (gold.ndim == 2 and gold.shape != probabilities.shape):
        raise DataError(f"Expected as many predictions as labels, found {probabilities.shape} for {gold.shape}.")
    if probabilities.ndim != 2:
        raise DataError(f"Expected probabilities of shape (rows, classes), found {probabilities.shape}.")
    check_finite(probabilities)
    shares = probabilities.astype(np.float64)
    if gold.ndim == 2:
        return gold == POSITIVE, shares
    if gold.min() < 0 or gold.max() >= shares.shape[1]:
        raise DataError(
            f"Expected class indices from 0 to {shares.shape[1] - 1}, found {gold.min():g} to {gold.max():g}."
        )
    return gold[:, None] == np.arange(shares.shape[1]), shares
