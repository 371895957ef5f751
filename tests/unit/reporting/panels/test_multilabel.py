"""Panels of several classes per row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from palbert.inference.results import TaskResult
from palbert.reporting.panels.multilabel import MultilabelPanels
from palbert.reporting.wording import Score
from palbert.targets.multilabel import Multilabel

TARGET = Multilabel(classes=("a", "b", "c"))
PANELS = MultilabelPanels(TARGET)
MakeResult = Callable[..., TaskResult]
GOLD = [[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 1]]
PREDICTED = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]]
SHARES = [[0.9, 0.1, 0.1], [0.1, 0.6, 0.1], [0.2, 0.9, 0.4], [0.1, 0.7, 0.05]]


@pytest.fixture
def result(make_result: MakeResult) -> TaskResult:
    return make_result(TARGET, gold=GOLD, predicted=PREDICTED, probabilities=SHARES)


def test_a_row_is_correct_if_all_of_its_classes_are(result: TaskResult) -> None:
    assert result.wrong.tolist() == [False, True, True, True]
    assert PANELS.opening(result, Score("micro_f1", 0.5)).startswith("1 of 4 rows with exactly the right classes (25.0")


def test_the_probability_furthest_from_its_label_comes_first(result: TaskResult) -> None:
    errors = PANELS.errors(result)
    assert [(row.identifier, row.gold, row.predicted) for row in errors] == [
        ("row 3", "c", "b"),
        ("row 2", "a, b", "b"),
        ("row 1", "none", "b"),
    ]
    assert [row.measure.split("\u202f")[0] for row in errors] == ["95.0", "80.0", "60.0"]


def test_the_classes_that_are_missed_and_added_most_are_named(result: TaskResult, make_result: MakeResult) -> None:
    assert PANELS.detail(result) == ("It misses “a” most often (1 row). It wrongly gives “b” most often (2 rows).")
    assert "no mistake" in PANELS.detail(make_result(TARGET, gold=GOLD, predicted=GOLD))


def test_class_scores_come_in_the_order_of_the_classes(result: TaskResult) -> None:
    scores = dict(PANELS.class_scores(result))
    assert list(scores) == ["a", "b", "c"]
    assert (scores["a"].recall, scores["b"].precision, scores["c"].support) == (0.5, 1 / 3, 1)


def test_a_condensed_result_counts_each_class_and_can_be_drawn(result: TaskResult) -> None:
    condensed = PANELS.condense(result.gold, result.predicted)
    assert condensed == {"classes": ["a", "b", "c"], "rows": 4, "gold": [2, 1, 1], "predicted": [1, 3, 0]}
    pytest.importorskip("matplotlib")
    [(name, svg)] = PANELS.condensed_plots(condensed, task="mine").items()
    assert name == "labels-mine" and svg.startswith("<svg")


def test_the_plots_show_each_class_and_the_classes_per_row(result: TaskResult) -> None:
    pytest.importorskip("matplotlib")
    each, many = PANELS.plots(result, {"train": np.ones((3, 3)), "dev": result.gold, "predicted": result.predicted})
    assert "a row may have several" in each.caption and "Classes per row" in many.caption
    assert "classes per row" in str(many.svg)
