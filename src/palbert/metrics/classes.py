"""Metrics of classes: how often the class, or each of a row's classes, is right.

Class indices count from 0. One class per row is an array (rows,); any number of classes per row is an array of 0 and
1, (rows, classes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.errors import DataError
from palbert.metrics.definition import POSITIVE, Values, check_rows, metric, ratio


@dataclass(frozen=True)
class ClassScores:
    """How well one class is found."""

    precision: float
    recall: float
    f1: float
    support: int
    """Rows whose gold label is this class."""


@metric()
def accuracy(gold: Values, predicted: Values) -> float:
    """Return the share of rows whose class is right."""
    check_rows(gold, predicted)
    return float(np.count_nonzero(gold == predicted) / len(gold))


@metric()
def balanced_accuracy(gold: Values, predicted: Values) -> float:
    """Return the mean recall of the classes that occur among the labels."""
    matrix = confusion_matrix(gold, predicted)
    support = matrix.sum(axis=1)
    present = support > 0
    return float(np.mean(matrix.diagonal()[present] / support[present]))


@metric()
def precision(gold: Values, predicted: Values) -> float:
    """Return the share of predicted positives that are positive; 0.0 when nothing is predicted positive."""
    return _positive_scores(gold, predicted)[0]


@metric()
def recall(gold: Values, predicted: Values) -> float:
    """Return the share of positives that are found; 0.0 when no row is positive."""
    return _positive_scores(gold, predicted)[1]


@metric()
def f1(gold: Values, predicted: Values) -> float:
    """Return the harmonic mean of precision and recall; 0.0 when no positive is found."""
    return _positive_scores(gold, predicted)[2]


@metric()
def macro_precision(gold: Values, predicted: Values) -> float:
    """Return the plain mean of every class's precision; with one class per row, of those that occur in either side."""
    hits, guesses, support = _counts(gold, predicted)
    return float(np.mean(_ratios(hits, guesses)[_present(gold, guesses, support)]))


@metric()
def macro_recall(gold: Values, predicted: Values) -> float:
    """Return the plain mean of every class's recall; with one class per row, of those that occur in either side."""
    hits, guesses, support = _counts(gold, predicted)
    return float(np.mean(_ratios(hits, support)[_present(gold, guesses, support)]))


@metric()
def macro_f1(gold: Values, predicted: Values) -> float:
    """Return the plain mean of every class's F1; with one class per row, of the classes that occur in either side."""
    hits, guesses, support = _counts(gold, predicted)
    return float(np.mean(_ratios(2.0 * hits, guesses + support)[_present(gold, guesses, support)]))


@metric()
def weighted_f1(gold: Values, predicted: Values) -> float:
    """Return the mean of every class's F1, weighted by its rows among the labels; 0.0 when no row has a class."""
    hits, guesses, support = _counts(gold, predicted)
    return ratio(float(np.sum(support * _ratios(2.0 * hits, guesses + support))), float(support.sum()))


@metric()
def micro_precision(gold: Values, predicted: Values) -> float:
    """Return the precision over all pairs of a row and a class, (rows, classes); 0.0 when no class is predicted."""
    check_rows(gold, predicted, columns=True)
    return _positive_scores(gold.reshape(-1), predicted.reshape(-1))[0]


@metric()
def micro_recall(gold: Values, predicted: Values) -> float:
    """Return the recall over all pairs of a row and a class, (rows, classes); 0.0 when no row has a class."""
    check_rows(gold, predicted, columns=True)
    return _positive_scores(gold.reshape(-1), predicted.reshape(-1))[1]


@metric()
def micro_f1(gold: Values, predicted: Values) -> float:
    """Return the F1 over all pairs of a row and a class, (rows, classes); 0.0 when no class is found."""
    check_rows(gold, predicted, columns=True)
    return _positive_scores(gold.reshape(-1), predicted.reshape(-1))[2]


@metric()
def jaccard(gold: Values, predicted: Values) -> float:
    """Return the mean over rows of classes in both by classes in either, (rows, classes); 1.0 for a row with none."""
    check_rows(gold, predicted, columns=True)
    true, guessed = gold == POSITIVE, predicted == POSITIVE
    either = (true | guessed).sum(axis=1)
    return float(np.mean(np.where(either > 0, _ratios((true & guessed).sum(axis=1), either), 1.0)))


@metric()
def subset_accuracy(gold: Values, predicted: Values) -> float:
    """Return the share of rows whose classes are all right, (rows, classes)."""
    check_rows(gold, predicted, columns=True)
    return float(np.count_nonzero((gold == predicted).all(axis=1)) / len(gold))


@metric(higher_is_better=False)
def hamming_loss(gold: Values, predicted: Values) -> float:
    """Return the share of wrong pairs of a row and a class, (rows, classes)."""
    check_rows(gold, predicted, columns=True)
    return float(np.mean(gold != predicted))


@metric(range=(-1.0, 1.0))
def mcc(gold: Values, predicted: Values) -> float:
    """Return the Matthews correlation of labels and predictions; 0.0 when either side is constant."""
    matrix = confusion_matrix(gold, predicted).astype(np.float64)
    rows, guesses, support = matrix.sum(), matrix.sum(axis=0), matrix.sum(axis=1)
    covariance = np.trace(matrix) * rows - np.sum(guesses * support)
    scale = np.sqrt((rows**2 - np.sum(guesses**2)) * (rows**2 - np.sum(support**2)))
    return ratio(float(covariance), float(scale))


@metric(range=(-1.0, 1.0))
def kappa(gold: Values, predicted: Values) -> float:
    """Return Cohen's kappa, the agreement beyond chance; 0.0 when both sides are the same constant."""
    matrix = confusion_matrix(gold, predicted)
    return _kappa(matrix, 1.0 - np.eye(len(matrix)))


@metric(range=(-1.0, 1.0))
def quadratic_kappa(gold: Values, predicted: Values) -> float:
    """Return Cohen's kappa for ordered classes: an error counts by its squared distance; 0.0 as for kappa."""
    matrix = confusion_matrix(gold, predicted)
    places = np.arange(len(matrix), dtype=np.float64)
    return _kappa(matrix, np.square(places[:, None] - places))


def confusion_matrix(gold: Values, predicted: Values, *, classes: int | None = None) -> NDArray[np.int64]:
    """Count rows by gold class (down) and predicted class (across).

    Args:
        gold: True class indices.
        predicted: Predicted class indices.
        classes: How many classes there are; by default up to the highest index that occurs.

    Returns:
        Counts, of shape (classes, classes).
    """
    check_rows(gold, predicted)
    true, guessed = gold.astype(np.intp), predicted.astype(np.intp)
    lowest, highest = min(true.min(), guessed.min()), max(true.max(), guessed.max())
    size = int(highest) + 1 if classes is None else classes
    if lowest < 0 or highest >= size:
        raise DataError(f"Expected class indices from 0 to {size - 1}, found {lowest} to {highest}.")
    counts = np.bincount(true * size + guessed, minlength=size * size)
    return counts.reshape(size, size).astype(np.int64)


def per_class(gold: Values, predicted: Values, *, classes: int | None = None) -> list[ClassScores]:
    """Return precision, recall, F1 and support of every class, in index order; see `confusion_matrix`."""
    matrix = confusion_matrix(gold, predicted, classes=classes)
    return _class_scores(matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1))


def per_label(gold: Values, predicted: Values) -> list[ClassScores]:
    """Return precision, recall, F1 and support of every class where a row may have several, (rows, classes)."""
    check_rows(gold, predicted, columns=True)
    return _class_scores(*_counts(gold, predicted))


def _counts(gold: Values, predicted: Values) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return how often each class is right, predicted, and among the labels."""
    if gold.ndim == 2:
        check_rows(gold, predicted, columns=True)
        true, guessed = gold == POSITIVE, predicted == POSITIVE
        return (true & guessed).sum(axis=0), guessed.sum(axis=0), true.sum(axis=0)
    matrix = confusion_matrix(gold, predicted)
    return matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1)


def _present(gold: Values, guesses: NDArray[np.int64], support: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the classes that a mean is over: all columns, or where a row has one class, those that occur."""
    occur: NDArray[np.bool_] = guesses + support > 0
    return np.ones_like(occur) if gold.ndim == 2 else occur


def _ratios(parts: NDArray[Any], wholes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return parts / wholes, and 0.0 without cases."""
    found: NDArray[np.float64] = np.divide(parts, wholes, out=np.zeros(len(wholes)), where=wholes > 0)
    return found


def _positive_scores(gold: Values, predicted: Values) -> tuple[float, float, float]:
    check_rows(gold, predicted)
    true, guessed = gold == POSITIVE, predicted == POSITIVE
    hits = int(np.count_nonzero(true & guessed))
    positives, guesses = int(np.count_nonzero(true)), int(np.count_nonzero(guessed))
    return ratio(hits, guesses), ratio(hits, positives), ratio(2 * hits, guesses + positives)


def _class_scores(hits: Values, guesses: Values, support: Values) -> list[ClassScores]:
    counts = zip(hits.tolist(), guesses.tolist(), support.tolist(), strict=True)
    return [ClassScores(ratio(h, g), ratio(h, s), ratio(2 * h, g + s), s) for h, g, s in counts]


def _kappa(matrix: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
    """Return 1 - disagreement / expected disagreement, each weighted."""
    expected = np.outer(matrix.sum(axis=1), matrix.sum(axis=0)) / matrix.sum()
    by_chance = float(np.sum(weights * expected))
    return 1.0 - float(np.sum(weights * matrix)) / by_chance if by_chance else 0.0
