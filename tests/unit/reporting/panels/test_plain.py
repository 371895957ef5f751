"""Plain panels: a report for any target."""

from __future__ import annotations

from collections.abc import Callable

from palbert.inference.results import TaskResult
from palbert.reporting.panels.plain import PlainPanels
from palbert.reporting.wording import Score
from palbert.targets.classes import Classes

TARGET = Classes(classes=("a", "b"))
PANELS = PlainPanels(TARGET)


def test_rows_are_counted_and_errors_listed_in_their_order(make_result: Callable[..., TaskResult]) -> None:
    result = make_result(TARGET, gold=[0, 1, 1], predicted=[1, 1, 0])
    assert PANELS.opening(result, Score("macro_f1", 0.3)).startswith("1 of 3 rows right")
    assert [row.identifier for row in PANELS.errors(result)] == ["row 0", "row 2"]
    assert PANELS.errors_note(2, 2) == "2 of 2 wrong rows."


def test_there_are_no_plots_and_no_sentence_on_details(make_result: Callable[..., TaskResult]) -> None:
    result = make_result(TARGET, gold=[0, 1], predicted=[0, 1])
    assert PANELS.plots(result, {}) == [] == PANELS.label_plot({}, caption="", name="")
    assert PANELS.class_scores(result) == [] and PANELS.detail(result) == ""
    assert PANELS.condense(result.gold, result.predicted) == {} == PANELS.condensed_plots({}, task="mine")
