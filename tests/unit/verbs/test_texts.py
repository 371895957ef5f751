"""Texts: rows as columns, and which tasks take them."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.errors import DataError
from palbert.recipe.load import make_recipe
from palbert.tasks.spec import Task
from palbert.verbs.texts import columns_of, tasks_for


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return dict(make_recipe({"data": "samples", "tasks": {"sst": {}, "quora": {}, "sts": {}}}).tasks)


def test_rows_become_columns(tasks: dict[str, Task]) -> None:
    assert columns_of(tasks["sst"], ["a", "b"]) == [["a", "b"]]
    assert columns_of(tasks["sts"], [("a", "b"), ("c", "d")]) == [["a", "c"], ["b", "d"]]
    assert columns_of(tasks["sts"], []) == [[], []]


def test_single_texts_and_pairs_find_their_tasks(tasks: dict[str, Task]) -> None:
    assert [task.name for task in tasks_for(tasks, ["a"])] == ["sst"]
    assert [task.name for task in tasks_for(tasks, [("a", "b")])] == ["quora", "sts"]
    assert [task.name for task in tasks_for(tasks, [])] == ["sst", "quora", "sts"]


@pytest.mark.parametrize(
    ("texts", "names", "says"),
    [
        ("one text", ["sst"], "Expected a list of texts, found one text. Write ['one text']."),
        (["a", ("a", "b")], ["sst", "sts"], "Some rows are single texts and others are pairs."),
        (["a"], ["sts"], "No task of this model takes single texts: sts takes a pair of texts."),
        ([("a", "b")], ["sst"], "No task of this model takes pairs: sst takes a text."),
        ([("a", "b", "c")], ["sst"], "takes rows of 3 texts"),
    ],
)
def test_rows_that_no_task_takes_are_refused(texts: Any, names: list[str], says: str, tasks: dict[str, Task]) -> None:
    with pytest.raises(DataError) as caught:
        tasks_for({name: tasks[name] for name in names}, texts)
    assert says in str(caught.value)


@pytest.mark.parametrize("texts", [[], ["x"]])
def test_an_encoder_without_tasks_has_no_answers(texts: list[str]) -> None:
    with pytest.raises(DataError, match="encoder without tasks"):
        tasks_for({}, texts)
