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
    """Return the plain mean of every class's F1; with one class per row, of the classes that occur in either side."""
    if gold.ndim == 2:
        return float(np.mean([scores.f1 for scores in per_label(gold, predicted)]))
    matrix = confusion_matrix(gold, predicted)
    rows_and_columns = matrix.sum(axis=0) + matrix.sum(axis=1)
    present = rows_and_columns > 0
    return float(np.mean(2.0 * np.diag(matrix)[present] / rows_and_columns[present]))


@metric()
def micro_f1(gold: Values, predicted: Values) -> float:
    """Return the F1 over all pairs of a row and a class, (rows, classes); 0.0 when no class is found."""
    _check(gold, predicted, columns=True)
    return _positive_scores(gold.reshape(-1), predicted.reshape(-1))[2]


@metric()
def subset_accuracy(gold: Values, predicted: Values) -> float:
    """Return the share of rows whose classes are all right, (rows, classes)."""
    _check(gold, predicted, columns=True)
    return float(np.count_nonzero((gold == predicted).all(axis=1)) / len(gold))


@metric(of_probabilities=True)
def average_precision(gold: Values, probabilities: Values) -> float:
    """Return the mean over classes of the area under precision by recall, (rows, classes); 0.0 for an absent class."""
    _check(gold, probabilities, columns=True, numbers=True)
    return float(np.mean([_average_precision(*column) for column in zip(gold.T, probabilities.T, strict=True)]))


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
    return _class_scores(matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1))


def per_label(gold: Values, predicted: Values) -> list[ClassScores]:
    """Return precision, recall, F1 and support of every class where a row may have several, (rows, classes)."""
    _check(gold, predicted, columns=True)
    true, guessed = gold == POSITIVE, predicted == POSITIVE
    return _class_scores((true & guessed).sum(axis=0), guessed.sum(axis=0), true.sum(axis=0))


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


def _check(gold: Values, predicted: Values, *, columns: bool = False, numbers: bool = False) -> None:
    if gold.ndim != 1 + columns and gold.size:
        shape = "(rows, classes)" if columns else "(rows,)"
        raise DataError(f"Expected labels of shape {shape}, found {gold.shape}.")
    if gold.shape != predicted.shape:
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


def _class_scores(hits: Values, guesses: Values, support: Values) -> list[ClassScores]:
    counts = zip(hits.tolist(), guesses.tolist(), support.tolist(), strict=True)
    return [ClassScores(_ratio(h, g), _ratio(h, s), _ratio(2 * h, g + s), s) for h, g, s in counts]


def _average_precision(gold: Values, scores: Values) -> float:
    """Add up precision times the gain in recall, going down the scores; equal scores count at once."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(gold[order] == POSITIVE)
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    found = hits[last]
    gains = np.diff(found, prepend=0)
    return float(np.sum(gains * found / (last + 1)) / found[-1]) if found[-1] else 0.0


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
