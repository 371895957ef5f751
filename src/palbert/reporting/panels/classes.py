"""Panels of one class per row: a confusion matrix, label shares, class scores, and the surest mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.inference.results import TaskResult
from palbert.metrics import ClassScores, Values, confusion_matrix, per_class
from palbert.reporting import plots
from palbert.reporting.page import Plot, plot
from palbert.reporting.panels.panels import Panels
from palbert.reporting.wording import percent, plural


class ClassPanels(Panels):
    """Panels of one of several classes."""

    measure = "probability"
    section = "confusion"

    def plots(self, result: TaskResult, labels: Mapping[str, Values]) -> list[Plot]:
        """Draw the confusion matrix and the shares of the labels."""
        name = f"{result.task} ({result.split})"
        caption = "Gold class down, predicted class across. Shade and percentages are shares of the gold class."
        shares = "Labels in the data and as predicted, as shares of each set."
        return [
            *plot(caption, plots.confusion_matrix, self._matrix(result), self.target.classes, name=name),
            *self.label_plot(labels, caption=shares, name=name),
        ]

    def label_plot(self, labels: Mapping[str, Values], *, caption: str, name: str) -> list[Plot]:
        """Draw the share of each class."""
        return plot(caption, plots.label_distribution, labels, classes=self.target.classes, name=name)

    def class_scores(self, result: TaskResult) -> list[tuple[str, ClassScores]]:
        """Return precision, recall, F1 and support of each class."""
        found = per_class(result.gold, result.predicted, classes=len(self.target.classes))
        return list(zip(self.target.classes, found, strict=True))

    def detail(self, result: TaskResult) -> str:
        """Say which class is most often taken for which."""
        names, matrix = self.target.classes, self._matrix(result)
        np.fill_diagonal(matrix, 0)
        if not matrix.any():
            return "There is no mistake among them."
        gold, predicted = np.unravel_index(int(matrix.argmax()), matrix.shape)
        rows = plural(int(matrix.max()), "row")
        return f"Its most common mistake: “{names[gold]}” taken for “{names[predicted]}” ({rows})."

    def severity(self, result: TaskResult) -> NDArray[np.float64] | None:
        """Return the probability of the predicted class."""
        if result.probabilities is None:
            return None
        columns = result.predicted.astype(np.intp)[:, None]
        return np.take_along_axis(result.probabilities, columns, axis=1)[:, 0]

    def errors_note(self, shown: int, wrong: int) -> str:
        """Say that the surest mistakes are shown."""
        return f"{shown} of {plural(wrong, 'wrong row')}: those with the highest probability on the wrong class."

    def condense(self, gold: Values, predicted: Values) -> dict[str, Any]:
        """Return the confusion matrix."""
        matrix = confusion_matrix(gold, predicted, classes=len(self.target.classes))
        return {"classes": list(self.target.classes), "counts": matrix.tolist()}

    @staticmethod
    def condensed_plots(condensed: Mapping[str, Any], *, task: str) -> dict[str, str]:
        """Draw the confusion matrix with the labels given and predicted."""
        counts, classes = np.array(condensed["counts"], dtype=np.int64), condensed["classes"]
        labels = np.arange(len(classes))
        splits = {"gold": np.repeat(labels, counts.sum(axis=1)), "predicted": np.repeat(labels, counts.sum(axis=0))}
        return {
            f"confusion-{task}": plots.confusion_matrix(counts, classes, name=task),
            f"labels-{task}": plots.label_distribution(splits, classes=classes, name=task),
        }

    def _matrix(self, result: TaskResult) -> NDArray[np.int64]:
        return confusion_matrix(result.gold, result.predicted, classes=len(self.target.classes))


class BinaryPanels(ClassPanels):
    """Panels of yes or no."""

    def detail(self, result: TaskResult) -> str:
        """Give recall and precision of the positive class in words."""
        name = self.target.classes[1]
        positives, guesses = int(np.sum(result.gold == 1)), int(np.sum(result.predicted == 1))
        hits = int(np.sum((result.gold == 1) & (result.predicted == 1)))
        if not positives or not guesses:
            missing = "No row is" if not positives else "No row is predicted to be"
            return f"{missing} “{name}”."
        found, right = percent(hits / positives, 0), percent(hits / guesses, 0)
        return f"It finds {found} of the “{name}” rows, and {right} of its “{name}” predictions are right."
