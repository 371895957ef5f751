"""Panels of one class per row."""

from __future__ import annotations

from collections.abc import Callable

from palbert.inference.results import TaskResult
from palbert.reporting.panels.classes import BinaryPanels, ClassPanels
from palbert.reporting.wording import Score
from palbert.targets.binary import Binary
from palbert.targets.classes import Classes

TARGET = Classes(classes=("a", "b", "c"))
PANELS = ClassPanels(TARGET)
BINARY = BinaryPanels(Binary(classes=("no", "yes")))
MakeResult = Callable[..., TaskResult]


def test_the_most_confident_mistake_comes_first(make_result: MakeResult) -> None:
    shares = [[0.6, 0.4, 0.0], [0.0, 0.9, 0.1], [0.3, 0.7, 0.0]]
    result = make_result(TARGET, gold=[0, 0, 2], predicted=[0, 1, 1], probabilities=shares)
    errors = PANELS.errors(result)
    assert [(row.identifier, row.gold, row.predicted) for row in errors] == [("row 1", "a", "b"), ("row 2", "c", "b")]
    assert [row.measure.split("\u202f")[0] for row in errors] == ["90.0", "70.0"]


def test_without_probabilities_errors_keep_their_order(make_result: MakeResult) -> None:
    errors = PANELS.errors(make_result(TARGET, gold=[0, 1, 2], predicted=[1, 1, 0]))
    assert [(row.identifier, row.measure) for row in errors] == [("row 0", "–"), ("row 2", "–")]


def test_the_most_common_mistake_is_named(make_result: MakeResult) -> None:
    assert "“a” taken for “b” (2 rows)" in PANELS.detail(make_result(TARGET, gold=[0, 0, 2], predicted=[1, 1, 2]))
    assert "no mistake" in PANELS.detail(make_result(TARGET, gold=[0, 1], predicted=[0, 1]))


def test_the_opening_counts_correct_rows(make_result: MakeResult) -> None:
    result = make_result(TARGET, gold=[0, 1, 2, 2], predicted=[0, 1, 2, 0])
    assert PANELS.opening(result, Score("accuracy", 0.75, 0.5, 1.0)).startswith("3 of 4 rows right (75.0")
    assert PANELS.opening(result, Score("macro_f1", 0.7)).endswith("; macro_f1 0.700.")


def test_class_scores_come_in_the_order_of_the_classes(make_result: MakeResult) -> None:
    scores = dict(PANELS.class_scores(make_result(TARGET, gold=[0, 0, 1], predicted=[0, 1, 1])))
    assert list(scores) == ["a", "b", "c"]
    assert (scores["a"].recall, scores["b"].precision, scores["c"].support) == (0.5, 0.5, 0)


def test_a_condensed_result_is_the_confusion_matrix(make_result: MakeResult) -> None:
    result = make_result(TARGET, gold=[0, 0, 2], predicted=[0, 1, 2])
    condensed = PANELS.condense(result.gold, result.predicted)
    assert condensed == {"classes": ["a", "b", "c"], "counts": [[1, 1, 0], [0, 0, 0], [0, 0, 1]]}


def test_the_positive_class_is_described(make_result: MakeResult) -> None:
    detail = BINARY.detail(make_result(BINARY.target, gold=[1, 1, 0, 0], predicted=[1, 0, 1, 0]))
    assert detail == "It finds 50\u202f% of the “yes” rows, and 50\u202f% of its “yes” predictions are right."
    assert "No row is “yes”" in BINARY.detail(make_result(BINARY.target, gold=[0, 0], predicted=[1, 0]))
    assert "No row is predicted to be “yes”" in BINARY.detail(make_result(BINARY.target, gold=[0, 1], predicted=[0, 0]))
