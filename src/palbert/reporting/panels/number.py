"""Panels of numbers: predictions against gold, residuals, and the largest errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.inference.results import TaskResult
from palbert.metrics import Values
from palbert.reporting import plots
from palbert.reporting.page import Plot, plot
from palbert.reporting.panels.panels import Panels
from palbert.reporting.wording import Score, number, plural, signed

CELLS = 50
"""Steps between the least and the largest gold number that predictions are counted in."""


class NumberPanels(Panels):
    """Panels of one number per row."""

    measure = "error"
    section = "numbers"

    def plots(self, result: TaskResult, labels: Mapping[str, Values]) -> list[Plot]:
        """Draw predictions against gold, the residuals, and the distribution of the numbers."""
        name = f"{result.task} ({result.split})"
        equal = "Each dot is a row; on the dashed line the prediction equals the gold number."
        if len(result.gold) > plots.MOST_POINTS:
            equal += f" {plots.MOST_POINTS:,} of {plural(len(result.gold), 'row')} shown."
        bands = "Errors: how many of each size, and where on the scale. The line is the mean error in ten bands."
        return [
            *plot(equal, plots.similarity_scatter, result.gold, result.predicted, name=name),
            *plot(bands, plots.residuals, result.gold, result.predicted, name=name),
            *self.label_plot(labels, caption="Gold numbers and predictions, as shares of each set.", name=name),
        ]

    def label_plot(self, labels: Mapping[str, Values], *, caption: str, name: str) -> list[Plot]:
        """Draw a histogram."""
        return plot(caption, plots.label_distribution, labels, name=name)

    def opening(self, result: TaskResult, main: Score) -> str:
        """Say how closely predictions follow the gold numbers, and whether they are too high or too low."""
        errors = np.asarray(result.predicted - result.gold, dtype=np.float64)
        between = main.interval_text()
        value = f"{main.metric} {number(main.value)}" + (f", likely {between}" if between else "")
        low, high = float(result.gold.min()), float(result.gold.max())
        offset = f"The mean absolute error is {np.abs(errors).mean():.2f}, on a scale from {low:g} to {high:g}"
        bias = float(errors.mean())
        # A bias below a hundredth of the scale is not worth mentioning.
        if abs(bias) < 0.01 * max(high - low, 1e-12):
            return f"{_closeness(main)} ({value}). {offset}; predictions are neither too high nor too low on average."
        side = "high" if bias > 0 else "low"
        return f"{_closeness(main)} ({value}). {offset}; predictions are {abs(bias):.2f} too {side} on average."

    def severity(self, result: TaskResult) -> NDArray[np.float64]:
        """Return predicted minus gold."""
        return np.asarray(result.predicted - result.gold, dtype=np.float64)

    def shown_severity(self, severity: float) -> str:
        """Write the error with its sign."""
        return signed(severity, 2)

    def shown(self, value: Any) -> str:
        """Write two digits after the point."""
        return number(float(value), 2)

    def errors_note(self, shown: int, wrong: int) -> str:
        """Say that the largest errors are shown."""
        return f"The {plural(shown, 'row')} with the largest error."

    def condense(self, gold: Values, predicted: Values) -> dict[str, Any]:
        """Count rows by gold and predicted numbers, both rounded to a grid."""
        width = float(np.ptp(gold)) / CELLS or 1.0
        places, counts = np.unique(np.rint(np.stack([gold, predicted]) / width), axis=1, return_counts=True)
        first, second = (places * width).round(3).tolist()
        return {"gold": first, "predicted": second, "rows": counts.tolist()}

    @staticmethod
    def condensed_plots(condensed: Mapping[str, Any], *, task: str) -> dict[str, str]:
        """Draw predictions against gold, and the residuals."""
        gold, predicted = (np.repeat(condensed[side], condensed["rows"]) for side in ("gold", "predicted"))
        return {
            f"numbers-{task}": plots.similarity_scatter(gold, predicted, name=task),
            f"residuals-{task}": plots.residuals(gold, predicted, name=task),
        }


def _closeness(main: Score) -> str:
    if main.metric not in {"pearson", "spearman"}:
        return "Predictions were compared with the gold numbers"
    steps = (
        (0.9, "follow the gold numbers very closely"),
        (0.8, "follow the gold numbers closely"),
        (0.6, "follow the gold numbers, with scatter"),
        (0.3, "follow the gold numbers loosely"),
    )
    found = (words for limit, words in steps if main.value >= limit)
    return f"Predictions {next(found, 'hardly follow the gold numbers')}"
