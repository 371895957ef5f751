"""Panels: the base class of what reports show of a kind of target: plots, class scores, sentences and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from palbert.inference.results import TaskResult
from palbert.metrics import ClassScores, Values
from palbert.registry import PANELS
from palbert.reporting.page import Plot
from palbert.reporting.wording import Score, number, percent, plural
from palbert.targets import Target

WORST = 20
"""How many errors a task shows."""
CLIP = 360
"""Characters of a text shown before it folds."""


@dataclass(frozen=True)
class ErrorRow:
    """One wrong row, ready to read."""

    identifier: str
    texts: list[tuple[str, str]]
    """Each text as what is shown and what is folded away."""
    gold: str
    predicted: str
    measure: str
    """How wrong the row is, such as the probability of the wrong class."""
    row: int | None = None
    """Which row of the result it is, where its words may have scores."""


class Panels(ABC):
    """What reports show of the tasks of one kind of target.

    Args:
        target: What an answer is.
    """

    measure: ClassVar[str] = ""
    """What the last column of the error table shows."""
    section: ClassVar[str] = ""
    """The key of `condense` in the result of a table's row; none where "" is."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def plots(self, result: TaskResult, labels: Mapping[str, Values]) -> list[Plot]:
        """Draw a task's predictions; `labels` are those of the train rows, the gold ones and the predicted ones."""

    @abstractmethod
    def label_plot(self, labels: Mapping[str, Values], *, caption: str, name: str) -> list[Plot]:
        """Draw how the labels of several splits are distributed."""

    def class_scores(self, result: TaskResult) -> list[tuple[str, ClassScores]]:
        """Return how well each class is found, where there are classes."""
        return []

    def opening(self, result: TaskResult, main: Score) -> str:
        """Say in a sentence how good the predictions are."""
        right = int(np.count_nonzero(~result.wrong))
        text = f"{right:,} of {plural(len(result.gold), 'row')} right ({percent(right / max(len(result.gold), 1))})"
        if main.metric != "accuracy":
            between = main.interval_text()
            return f"{text}; {main.metric} {number(main.value)}" + (f", likely {between}." if between else ".")
        between = main.interval_text(as_percent=True)
        return f"{text}; on other rows of this kind, {between} is likely." if between else f"{text}."

    def detail(self, result: TaskResult) -> str:
        """Say in a sentence what stands out; empty where nothing does."""
        return ""

    def severity(self, result: TaskResult) -> NDArray[np.float64] | None:
        """Return how wrong each row is, (rows,); None leaves wrong rows in the order of the file."""
        return None

    def shown_severity(self, severity: float) -> str:
        """Write how wrong a row is."""
        return percent(severity)

    def shown(self, value: Any) -> str:
        """Write a label or a prediction in the error table."""
        return self.target.show(self.target.answer(value))

    def errors_note(self, shown: int, wrong: int) -> str:
        """Say which errors are shown."""
        return f"{shown} of {plural(wrong, 'wrong row')}."

    def worst(self, result: TaskResult) -> NDArray[np.int64]:
        """Return the rows of the worst errors, worst first."""
        wrong, severity = np.flatnonzero(result.wrong), self.severity(result)
        worst = wrong if severity is None else wrong[np.argsort(-np.abs(severity[wrong]), kind="stable")]
        return worst[:WORST]

    def errors(self, result: TaskResult) -> list[ErrorRow]:
        """Return the worst errors, worst first."""
        severity = self.severity(result)
        return [
            ErrorRow(
                result.ids[row],
                [_clipped(text) for text in result.texts[row]],
                self.shown(result.gold[row]),
                self.shown(result.predicted[row]),
                "–" if severity is None else self.shown_severity(float(severity[row])),
                int(row),
            )
            for row in self.worst(result)
        ]

    def condense(self, gold: Values, predicted: Values) -> dict[str, Any]:
        """Return what `condensed_plots` needs, as plain values for JSON, without anything of single rows."""
        return {}

    @staticmethod
    def condensed_plots(condensed: Mapping[str, Any], *, task: str) -> dict[str, str]:
        """Draw what `condense` returned: SVG by the plot's name."""
        return {}


def panels_of(target: Target) -> Panels:
    """Return the panels that a target names."""
    found: Panels = PANELS.find(target.panels, f"{type(target).__name__}.panels")(target)
    return found


def _clipped(text: str) -> tuple[str, str]:
    if len(text) <= CLIP * 1.2:  # folding a few words away would cost more room than it saves
        return text, ""
    head = text[:CLIP].rpartition(" ")[0] or text[:CLIP]
    return head, text[len(head) :]
