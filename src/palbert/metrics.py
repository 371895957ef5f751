"""Metrics: how close predictions are to the gold labels, and the overall score made of them.

Numpy only. Class indices count from 0; the positive class of a binary task is 1. The registry `METRICS` has all of
them by name. What other libraries leave undefined is defined here, so that a score is always a finite number: a ratio
without cases (precision when nothing was predicted positive) is 0.0, and a correlation with a constant side is 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from palbert.errors import DataError, PalbertError, did_you_mean
from palbert.registry import METRICS, OWN_CLASS

Values = NDArray[np.float64] | NDArray[np.int64]
Formula = Literal["scaled-mean", "mean"]

POSITIVE = 1


@dataclass(frozen=True)
class Metric:
    """One way to score predictions, with what a report needs to know about it."""

    name: str
    """The key in score tables and recipes."""
    function: Callable[[Values, Values], float]
    """Takes gold and predicted values of the same rows."""
    higher_is_better: bool = True
    range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest possible value; the highest may be infinite."""
    of_probabilities: bool = False
    """Whether it compares gold with the probability of each class, not with predictions."""

    def __call__(self, gold: Values, predicted: Values) -> float:
        """Score `predicted` against `gold`."""
        return self.function(gold, predicted)

    def compared(self, predicted: Values, probabilities: NDArray[np.float64] | None) -> Values:
        """Return what this metric compares with gold: the predictions, or the probability of each class."""
        if not self.of_probabilities:
            return predicted
        if probabilities is None:
            raise PalbertError(f"The metric '{self.name}' needs the probability of each class, and there are none.")
        return probabilities

    def scaled(self, value: float) -> float:
        """Map a value to 0…1 with 1 the best, as the overall score takes it.

        A bounded metric is stretched linearly, so accuracy stays as it is and a correlation r becomes
        (r + 1) / 2. An error without an upper bound, x, becomes 1 / (1 + x).
        """
        low, high = self.range
        if math.isinf(high):
            return 1.0 / (1.0 + value)
        return (value - low) / (high - low)

    def scaled_text(self, term: str) -> str:
        """Write `scaled` as a formula of `term`."""
        if math.isinf(self.range[1]):
            return f"1 / (1 + {term})"
        return f"({term} + 1) / 2" if self.range == (-1.0, 1.0) else term


@dataclass(frozen=True)
class ClassScores:
    """How well one class is found."""

    precision: float
    recall: float
    f1: float
    support: int
    """Rows whose gold label is this class."""


def metric(
    *,
    name: str = "",
    higher_is_better: bool = True,
    range: tuple[float, float] = (0.0, 1.0),
    of_probabilities: bool = False,
) -> Callable[[Callable[[Values, Values], float]], Metric]:
    """Return a decorator that makes a function a Metric, called as the function unless it has another name."""

    def decorate(function: Callable[[Values, Values], float]) -> Metric:
        made = Metric(name or function.__name__, function, higher_is_better, range, of_probabilities)
        object.__setattr__(made, "__doc__", function.__doc__)
        return made

    return decorate


UNBOUNDED = (0.0, math.inf)


@metric()
def accuracy(gold: Values, predicted: Values) -> float:
    """Return the share of rows whose class is right."""
    _check(gold, predicted)
    return float(np.count_nonzero(gold == predicted) / len(gold))


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
def macro_f1(gold: Values, predicted: Values) -> float:
    """Return the plain mean of the F1 of every class that occurs in the gold or the predicted labels."""
    matrix = confusion_matrix(gold, predicted)
    rows_and_columns = matrix.sum(axis=0) + matrix.sum(axis=1)
    present = rows_and_columns > 0
    return float(np.mean(2.0 * np.diag(matrix)[present] / rows_and_columns[present]))


def confusion_matrix(gold: Values, predicted: Values, *, classes: int | None = None) -> NDArray[np.int64]:
    """Count rows by gold class (down) and predicted class (across).

    Args:
        gold: True class indices.
        predicted: Predicted class indices.
        classes: How many classes there are; by default up to the highest index that occurs.

    Returns:
        Counts, of shape (classes, classes).
    """
    _check(gold, predicted)
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
    rows = zip(matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1), strict=True)
    return [
        ClassScores(_ratio(hits, guesses), _ratio(hits, support), _ratio(2 * hits, guesses + support), support)
        for hits, guesses, support in ((int(h), int(g), int(s)) for h, g, s in rows)
    ]


@metric(range=(-1.0, 1.0))
def pearson(gold: Values, predicted: Values) -> float:
    """Return the linear correlation; 0.0 when either side is constant."""
    _check(gold, predicted, numbers=True)
    return _correlation(gold.astype(np.float64), predicted.astype(np.float64))


@metric(range=(-1.0, 1.0))
def spearman(gold: Values, predicted: Values) -> float:
    """Return the correlation of the ranks, ties sharing their mean rank; 0.0 when either side is constant."""
    _check(gold, predicted, numbers=True)
    return _correlation(_average_ranks(gold), _average_ranks(predicted))


@metric(name="mse", higher_is_better=False, range=UNBOUNDED)
def mean_squared_error(gold: Values, predicted: Values) -> float:
    """Return the mean of the squared differences."""
    _check(gold, predicted, numbers=True)
    return float(np.mean(np.square(predicted - gold)))


@metric(name="mae", higher_is_better=False, range=UNBOUNDED)
def mean_absolute_error(gold: Values, predicted: Values) -> float:
    """Return the mean of the absolute differences."""
    _check(gold, predicted, numbers=True)
    return float(np.mean(np.abs(predicted - gold)))


def is_metric(name: str) -> bool:
    """Return whether a name is that of a metric, or "module:function"."""
    return name in METRICS or OWN_CLASS.match(name) is not None


def find_metric(name: str) -> Metric:
    """Return the metric of a name, or a user's own "module:function", which takes gold and predicted values."""
    if not is_metric(name):
        raise PalbertError(f"Unknown metric '{name}'.", hint=did_you_mean(name, METRICS))
    found = METRICS.find(name)
    return found if isinstance(found, Metric) else Metric(name, found)


def overall(scores: Mapping[str, tuple[str, float]], formula: Formula = "scaled-mean") -> float:
    """Combine one score per task into one number.

    Args:
        scores: Metric name and value, by task.
        formula: "scaled-mean" maps each value to 0…1 first (see `Metric.scaled`); "mean" takes it as it is.
    """
    _check_formula({task: name for task, (name, _) in scores.items()}, formula)
    values = [find_metric(name).scaled(value) if formula == "scaled-mean" else value for name, value in scores.values()]
    return float(sum(values) / len(values))


def formula_text(metrics: Mapping[str, str], formula: Formula = "scaled-mean") -> str:
    """Write the overall score of these tasks (task: metric name) as a formula."""
    _check_formula(metrics, formula)
    terms = [
        find_metric(name).scaled_text(f"{task}.{name}") if formula == "scaled-mean" else f"{task}.{name}"
        for task, name in metrics.items()
    ]
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)}) / {len(terms)}"


def _check_formula(metrics: Mapping[str, str], formula: Formula) -> None:
    if not metrics:
        raise PalbertError("The overall score needs at least one task, found none.")
    for task, name in metrics.items():
        if formula == "mean" and not find_metric(name).higher_is_better:
            raise PalbertError(
                f"The formula 'mean' cannot hold {task}.{name}, where lower is better.",
                hint="Use the formula 'scaled-mean', or another metric for the task.",
            )


def _check(gold: Values, predicted: Values, *, numbers: bool = False) -> None:
    if gold.ndim != 1 or gold.shape != predicted.shape:
        raise DataError(f"Expected as many predictions as labels, found {predicted.shape} for {gold.shape}.")
    if len(gold) == 0:
        raise DataError("A metric needs at least one row, found none.")
    if numbers and not np.isfinite(predicted).all():
        broken = np.count_nonzero(~np.isfinite(predicted))
        raise DataError(
            f"Predictions must be finite, found NaN or infinity in {broken} of {len(gold)} rows.",
            hint="Training has probably diverged: try a lower learning rate.",
        )


def _positive_scores(gold: Values, predicted: Values) -> tuple[float, float, float]:
    _check(gold, predicted)
    true, guessed = gold == POSITIVE, predicted == POSITIVE
    hits = int(np.count_nonzero(true & guessed))
    positives, guesses = int(np.count_nonzero(true)), int(np.count_nonzero(guessed))
    return _ratio(hits, guesses), _ratio(hits, positives), _ratio(2 * hits, guesses + positives)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


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
