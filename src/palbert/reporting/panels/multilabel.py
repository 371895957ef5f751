"""Panels of several classes per row: label shares, classes per row, scores of each class, and the surest mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.inference.results import TaskResult
from palbert.metrics import ClassScores, Values, per_label
from palbert.reporting import plots
from palbert.reporting.page import Plot, plot
from palbert.reporting.panels.panels import Panels
from palbert.reporting.wording import Score, number, percent, plural

MOST = 5
"""Rows with this many classes or more share a bar."""


class MultilabelPanels(Panels):
    """Panels of any number of classes per row."""

    measure = "error"
    section = "multilabel"

    def plots(self, result: TaskResult, labels: Mapping[str, Values]) -> list[Plot]:
        """Draw the share of rows with each class, and how many classes rows have."""
        name = f"{result.task} ({result.split})"
        counts = {split: np.minimum(values.sum(axis=1).astype(np.int64), MOST) for split, values in labels.items()}
        most = max((int(values.max(initial=0)) for values in counts.values()), default=0)
        bars = [f"{count}{' or more' * (count == MOST)}" for count in range(most + 1)]
        each = "Classes in the data and as predicted, as shares of the rows of each set; a row may have several."
        many = "Classes per row, as shares of the rows of each set."
        return [
            *self.label_plot(labels, caption=each, name=name),
            *plot(many, plots.label_distribution, counts, classes=bars, name=f"{name}, classes per row"),
        ]

    def label_plot(self, labels: Mapping[str, Values], *, caption: str, name: str) -> list[Plot]:
        """Draw the share of rows with each class."""
        return plot(caption, plots.label_distribution, labels, classes=self.target.classes, name=name)

    def class_scores(self, result: TaskResult) -> list[tuple[str, ClassScores]]:
        """Return precision, recall, F1 and support of each class."""
        return list(zip(self.target.classes, per_label(result.gold, result.predicted), strict=True))

    def opening(self, result: TaskResult, main: Score) -> str:
        """Say how many rows have exactly the right classes."""
        right = int(np.count_nonzero(~result.wrong))
        share = percent(right / max(len(result.gold), 1))
        between = main.interval_text()
        return (
            f"{right:,} of {plural(len(result.gold), 'row')} with exactly the right classes ({share}); "
            f"{main.metric} {number(main.value)}" + (f", likely {between}." if between else ".")
        )

    def detail(self, result: TaskResult) -> str:
        """Say which class is missed most often, and which is given wrongly most often."""
        missed = ((result.gold == 1) & (result.predicted == 0)).sum(axis=0)
        added = ((result.gold == 0) & (result.predicted == 1)).sum(axis=0)
        sentences = [
            f"It {verb} “{self.target.classes[int(counts.argmax())]}” most often ({plural(int(counts.max()), 'row')})."
            for counts, verb in ((missed, "misses"), (added, "wrongly gives"))
            if counts.any()
        ]
        return " ".join(sentences) or "There is no mistake among them."

    def severity(self, result: TaskResult) -> NDArray[np.float64] | None:
        """Return the largest difference between a class's probability and its label, among those predicted wrongly."""
        if result.probabilities is None:
            return None
        differences = np.abs(result.probabilities - result.gold)
        worst: NDArray[np.float64] = np.where(result.gold != result.predicted, differences, 0.0).max(axis=1)
        return worst

    def shown(self, value: Any) -> str:
        """Write the names of the classes."""
        return ", ".join(self.target.answer(value)) or "none"

    def errors_note(self, shown: int, wrong: int) -> str:
        """Say that the surest mistakes are shown."""
        return f"{shown} of {plural(wrong, 'wrong row')}: those with a probability furthest from its label."

    def condense(self, gold: Values, predicted: Values) -> dict[str, Any]:
        """Count the rows with each class, as labelled and as predicted."""
        counts = {"gold": gold.sum(axis=0).tolist(), "predicted": predicted.sum(axis=0).tolist()}
        return {"classes": list(self.target.classes), "rows": len(gold), **counts}

    @staticmethod
    def condensed_plots(condensed: Mapping[str, Any], *, task: str) -> dict[str, str]:
        """Draw the classes given and predicted."""
        classes, rows = condensed["classes"], np.arange(condensed["rows"])[:, None]
        splits = {side: (rows < np.array(condensed[side])).astype(np.int64) for side in ("gold", "predicted")}
        return {f"labels-{task}": plots.label_distribution(splits, classes=classes, name=task)}
