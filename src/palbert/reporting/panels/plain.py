"""Plain panels: scores and errors without plots, for targets that name no panels of their own."""

from __future__ import annotations

from collections.abc import Mapping

from palbert.inference.results import TaskResult
from palbert.metrics import Values
from palbert.reporting.page import Plot
from palbert.reporting.panels.panels import Panels


class PlainPanels(Panels):
    """No plots; wrong rows in the order of the file."""

    def plots(self, result: TaskResult, labels: Mapping[str, Values]) -> list[Plot]:
        """Draw nothing."""
        return []

    def label_plot(self, labels: Mapping[str, Values], *, caption: str, name: str) -> list[Plot]:
        """Draw nothing."""
        return []
