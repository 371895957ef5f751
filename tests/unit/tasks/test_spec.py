"""Task and Source: what they fill in, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from palbert.registry import TARGETS
from palbert.targets.number import Number
from palbert.tasks.sources import Source
from palbert.tasks.spec import Task

SINGLE: dict[str, Any] = {"name": "t", "kind": "single", "target": "number", "text": "a"}
PAIR: dict[str, Any] = {"name": "t", "kind": "pair", "target": "number", "text": ["a", "b"]}
SIAMESE: dict[str, Any] = {**PAIR, "pair_input": "siamese", "head": "cosine"}


def reasons(**values: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Task.model_validate(values)
    return "\n".join(finding["msg"] for finding in caught.value.errors())


@pytest.mark.parametrize("values", [SINGLE, PAIR, SIAMESE], ids=["single", "pair", "siamese"])
def test_a_task_without_contradictions_is_accepted(values: dict[str, Any]) -> None:
    task = Task.model_validate(values)
    assert task.loss.name == Number.losses[0]
    assert task.metrics == Number.metrics


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({**SINGLE, "text": ["a", "b"]}, "a single task needs 1 text column, found 2: a, b"),
        ({**SINGLE, "text": []}, "a single task needs 1 text column, found 0: none"),
        ({**PAIR, "text": "a"}, "a pair task needs 2 text columns, found 1: a"),
        ({**SINGLE, "target": "classes"}, "needs two or more names"),
        ({**SINGLE, "target": "classes", "classes": ["only"]}, "needs two or more names"),
        ({**SINGLE, "target": "binary", "classes": ["a", "b", "c"]}, "a binary task has two classes, found 3"),
        ({**SINGLE, "target": "classes", "classes": ["a", "b", "a"]}, "a class is named twice"),
        ({**SINGLE, "loss": "cross-entropy"}, "loss 'cross-entropy' does not fit target 'number', which takes 'mse'"),
        ({**SINGLE, "range": [5, 0]}, "range must go from low to high, found [5.0, 0.0]"),
        ({**SINGLE, "range": [1, 1]}, "range must go from low to high"),
        ({**SINGLE, "range": [float("nan"), 1]}, "range must have two finite numbers, found [nan, 1.0]"),
        ({**SINGLE, "range": [float("-inf"), float("inf")]}, "range must have two finite numbers, found [-inf, inf]"),
        ({**SINGLE, "range": [0, 1e39]}, "Expected a number that float32 can hold (1.2e-38 to 3.4e+38, or 0)"),
        ({**SINGLE, "target": "binary", "class_weights": [1, 1e39]}, "Expected a number that float32 can hold"),
        ({**SINGLE, "metrics": []}, "metrics must name at least one metric"),
        ({**PAIR, "dev": {"path": "a.csv", "text": "b"}}, "dev: a.csv: text names 1 column, the task has 2"),
        (
            {**PAIR, "extra": {"x": {"train": [{"path": "a.csv", "text": ["b", "c", "d"]}]}}},
            "extra.x.train: a.csv: text names 3 columns, the task has 2",
        ),
    ],
)
def test_a_contradiction_is_refused_with_its_reason(values: dict[str, Any], reason: str) -> None:
    assert reason in reasons(**values)


def test_all_contradictions_of_a_task_are_reported_together() -> None:
    reported = reasons(**{**PAIR, "text": "a", "head": "concat", "loss": "cross-entropy", "range": [1, 0]})
    for reason in ("2 text columns", "does not fit target", "from low to high"):
        assert reason in reported


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "with space"),
        ("name", "../up"),
        ("name", ""),
        ("kind", "triple"),
        ("target", "words"),
        ("max_length", 2),
        ("batch_size", 0),
        ("dropout", 1.0),
        ("weight", -1),
        ("quoting", "maybe"),
        ("separator", "ab"),
        ("encoding", "base64"),
        ("header", []),
        ("decimal", ";"),
        ("labels", "x"),
        ("labels", "y4"),
        ("pooling", "max"),
        ("head", "cosin"),
        ("unknown", 1),
    ],
)
def test_a_value_outside_a_field_is_refused(field: str, value: object) -> None:
    assert reasons(**{**SINGLE, field: value})


def test_a_decimal_sign_is_refused_where_labels_are_not_numbers() -> None:
    classes = {**SINGLE, "target": "classes", "classes": ["bad", "good"], "range": None}
    assert "decimal is the decimal sign of labels that are numbers" in reasons(**classes, decimal=",")
    assert Task.model_validate({**SINGLE, "decimal": ","}).dialect.decimal == ","


def test_a_near_miss_of_a_head_is_suggested() -> None:
    assert "Did you mean 'cosine'?" in reasons(**{**SIAMESE, "head": "cosin"})


@pytest.mark.parametrize("target", TARGETS)
def test_the_target_decides_loss_metrics_and_width(target: str) -> None:
    values = {**SINGLE, "target": target}
    if target not in ("binary", "number"):
        values["classes"] = ["a", "b", "c"]
    task = Task.model_validate(values)
    assert (task.loss.name, task.metrics) == (TARGETS[target].losses[0], TARGETS[target].metrics)
    assert task.metric == TARGETS[target].metrics[0]
    assert task.outputs == task.target.outputs == (1 if target in ("binary", "number") else 3)
    assert (task.target.name, task.target.classes) == (target, task.classes)


def test_target_and_loss_are_written_as_names_unless_they_have_options() -> None:
    task = Task.model_validate({**SINGLE, "target": "number", "loss": {"name": "huber", "delta": 0.5}})
    written = task.model_dump(mode="json")
    assert (written["target"], written["loss"]) == ("number", {"name": "huber", "delta": 0.5})
    assert Task.model_validate(written) == task
    assert Task.model_validate({**SINGLE, "target": "number"}).model_dump()["loss"] == "mse"


def test_an_option_that_a_target_does_not_take_is_refused() -> None:
    assert "unknown option 'depth'" in reasons(**{**SINGLE, "target": {"name": "number", "depth": 2}})


def test_a_binary_task_has_no_and_yes_unless_named() -> None:
    assert Task.model_validate({**SINGLE, "target": "binary"}).classes == ("no", "yes")
    assert Task.model_validate({**SINGLE, "target": "binary", "classes": ["a", "b"]}).classes == ("a", "b")


def test_a_single_task_is_never_siamese() -> None:
    assert not Task.model_validate({**SINGLE, "pair_input": "siamese"}).siamese


def test_one_file_is_read_as_a_list_of_one() -> None:
    written_out = Task.model_validate({**SINGLE, "train": [{"path": "a.csv"}], "dev": [{"path": "b.csv"}]})
    assert Task.model_validate({**SINGLE, "train": "a.csv", "dev": {"path": "b.csv"}}) == written_out
    assert written_out.train == (Source(path="a.csv"),)


def test_loss_pooling_and_head_may_be_user_classes() -> None:
    task = Task.model_validate({**SINGLE, "loss": "my.losses:Huber", "pooling": "m:Max", "head": "my_heads:Deep"})
    assert (task.loss.name, task.pooling.name, task.head.name) == ("my.losses:Huber", "m:Max", "my_heads:Deep")


def test_a_task_is_immutable() -> None:
    with pytest.raises(ValidationError):
        Task.model_validate(SINGLE).weight = 2.0  # type: ignore[misc]
