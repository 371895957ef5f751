"""Metric: one way to score predictions, and what a report needs to know about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.errors import DataError, PalbertError

Values = NDArray[np.float64] | NDArray[np.int64]
Resampler = Callable[[NDArray[np.int64]], float]
"""Gives the score of some rows, named by their indices; a row may be named several times."""

POSITIVE = 1
UNBOUNDED = (0.0, math.inf)


@dataclass(frozen=True)
class Metric:
    """One way to score predictions, with what a report needs to know about it."""

    name: str
    """The key in score tables and recipes."""
    function: Callable[[Values, Values], float]
    """Takes gold and predicted values of the same rows."""
    higher_is_better: bool = True
    range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest possible value; one of them may be infinite."""
    of_probabilities: bool = False
    """Whether it compares gold with the probability of each class, not with predictions."""
    resample: Callable[[Values, Values], Resampler] | None = None
    """Prepares a faster way to score many resamples of the same rows; it gives what `function` gives."""

    def __post_init__(self) -> None:
        low, high = self.range
        if not low < high or (math.isinf(low) and math.isinf(high)):
            raise PalbertError(
                f"The metric '{self.name}' needs a range from low to high with at least one finite end, "
                f"found {self.range}."
            )

    def __call__(self, gold: Values, predicted: Values) -> float:
        """Score `predicted` against `gold`; raise DataError unless that gives one finite number."""
        found = self.function(gold, predicted)
        value = _as_number(found)
        if value is None or not math.isfinite(value):
            raise DataError(
                f"The metric '{self.name}' returned {found!r:.60}; expected one finite number.",
                hint="Let it return a float for all rows, also where a class does not occur.",
            )
        return value

    def resampler(self, gold: Values, predicted: Values) -> Resampler:
        """Return a function that scores rows by their indices; NaN where the metric is not defined for them."""
        score = self.resample(gold, predicted) if self.resample else self._plain_resampler(gold, predicted)

        def safe(rows: NDArray[np.int64]) -> float:
            try:
                value = _as_number(score(rows))
            except (ValueError, ArithmeticError):  # a metric of one's own, on rows of one class
                return math.nan
            return value if value is not None and math.isfinite(value) else math.nan

        return safe

    def _plain_resampler(self, gold: Values, predicted: Values) -> Resampler:
        return lambda rows: self.function(gold[rows], predicted[rows])

    def compared(self, predicted: Values, probabilities: NDArray[np.float64] | None) -> Values:
        """Return what this metric compares with gold: the predictions, or the probability of each class."""
        if not self.of_probabilities:
            return predicted
        if probabilities is None:
            raise PalbertError(f"The metric '{self.name}' needs the probability of each class, and there are none.")
        return probabilities

    @property
    def bounded(self) -> bool:
        """Whether both ends of the range are finite."""
        return not any(map(math.isinf, self.range))

    @property
    def ends(self) -> tuple[float, float]:
        """The worst and the best possible value."""
        low, high = self.range
        return (low, high) if self.higher_is_better else (high, low)

    def scaled(self, value: float) -> float:
        """Map a value to 0…1 with 1 the best, as the overall score takes it.

        A bounded metric is stretched linearly, so accuracy stays as it is and a correlation r becomes
        (r + 1) / 2. Where only the best value is finite, a distance x from it becomes 1 / (1 + x); where only the
        worst is, a distance x from it becomes x / (1 + x).
        """
        worst, best = self.ends
        if math.isinf(worst):
            return 1.0 / (1.0 + abs(best - value))
        if math.isinf(best):
            return abs(value - worst) / (1.0 + abs(value - worst))
        return (value - worst) / (best - worst)

    def scaled_text(self, term: str) -> str:
        """Write `scaled` as a formula of `term`."""
        worst, best = self.ends
        if math.isinf(worst):
            return f"1 / (1 + {_distance(term, best, above=self.higher_is_better)})"
        distance = _distance(term, worst, above=not self.higher_is_better)
        grouped = f"({distance})" if " " in distance else distance
        if math.isinf(best):
            return f"{grouped} / (1 + {distance})"
        return distance if abs(best - worst) == 1 else f"{grouped} / {abs(best - worst):g}"


def metric(
    *,
    name: str = "",
    higher_is_better: bool = True,
    range: tuple[float, float] = (0.0, 1.0),
    of_probabilities: bool = False,
    resample: Callable[[Values, Values], Resampler] | None = None,
) -> Callable[[Callable[[Values, Values], float]], Metric]:
    """Return a decorator that makes a function a Metric, called as the function unless it has another name."""

    def decorate(function: Callable[[Values, Values], float]) -> Metric:
        made = Metric(name or function.__name__, function, higher_is_better, range, of_probabilities, resample)
        object.__setattr__(made, "__doc__", function.__doc__)
        return made

    return decorate


def check_rows(gold: Values, predicted: Values, *, columns: bool = False, numbers: bool = False) -> None:
    """Raise DataError unless labels and predictions have rows, as many, in the expected shape."""
    if gold.ndim != 1 + columns and gold.size:
        shape = "(rows, classes)" if columns else "(rows,)"
        raise DataError(f"Expected labels of shape {shape}, found {gold.shape}.")
    if gold.shape != predicted.shape:
        raise DataError(f"Expected as many predictions as labels, found {predicted.shape} for {gold.shape}.")
    if len(gold) == 0:
        raise DataError("A metric needs at least one row, found none.")
    if numbers:
        check_finite(predicted)


def check_finite(predicted: Values) -> None:
    """Raise DataError for predictions that are not numbers."""
    if not np.isfinite(predicted).all():
        broken = np.count_nonzero(~np.isfinite(predicted).reshape(len(predicted), -1).all(axis=1))
        raise DataError(
            f"Predictions must be finite, found NaN or infinity in {broken} of {len(predicted)} rows.",
            hint="Training has probably diverged: try a lower learning rate.",
        )


def ratio(part: float, whole: float) -> float:
    """Return part / whole, and 0.0 without cases."""
    return part / whole if whole else 0.0


def _as_number(value: Any) -> float | None:
    """Return one number as a float; None for anything else."""
    try:
        return float(value) if np.ndim(value) == 0 and not isinstance(value, str) else None
    except (TypeError, ValueError):
        return None


def _distance(term: str, end: float, *, above: bool) -> str:
    """Write how far a term is from an end of its range, which is above it or below it."""
    if above:
        return f"{end:g} - {term}"
    return term if end == 0 else f"{term} {'-' if end > 0 else '+'} {abs(end):g}"
