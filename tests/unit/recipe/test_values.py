"""A recipe's values: made plain, and with files put in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palbert.errors import RecipeError
from palbert.recipe.values import plain, refuse_depth, with_files
from palbert.tasks.sources import Source


def test_paths_tuples_and_models_become_what_toml_would_give() -> None:
    given = {
        "a": (Path("x/y.csv"), 1),
        "b": {"c": None, "d": Source(path="z")},
        "e": np.float64(0.5),
        "f": np.array([1]),
    }
    found = plain(given)
    assert found == {"a": ["x/y.csv", 1], "b": {"d": {"path": "z"}}, "e": 0.5, "f": [1]}
    assert type(found["e"]) is float


def test_files_replace_those_of_the_recipe() -> None:
    values = {"tasks": {"tone": {"train": "a.csv", "text": "review"}}, "seed": 1}
    found = with_files(values, {"tone": {"train": "/b.jsonl", "extra.more.train": "/c.jsonl"}})
    assert found == {
        "tasks": {"tone": {"train": "/b.jsonl", "text": "review", "extra": {"more": {"train": "/c.jsonl"}}}},
        "seed": 1,
    }
    assert values["tasks"]["tone"]["train"] == "a.csv"  # type: ignore[index]


def test_lists_of_names_stand_for_empty_tables() -> None:
    found = with_files({"tasks": ["sst", "sts"]}, {"sst": {"train": "/b.jsonl"}})
    assert found == {"tasks": {"sst": {"catalog": "sst", "train": "/b.jsonl"}, "sts": {}}}
    described = with_files({"tasks": {"sst": {"text": "review"}}}, {"sst": {"train": "/b.jsonl"}})
    assert described == {"tasks": {"sst": {"text": "review", "train": "/b.jsonl"}}}  # a task of one's own


@pytest.mark.parametrize("values", [{"tasks": 3}, {"tasks": {"tone": 3}}])
def test_wrong_tables_are_left_to_validation(values: dict[str, Any]) -> None:
    assert with_files(values, {"tone": {"train": "/b.jsonl"}}) == values


def test_a_task_that_the_recipe_does_not_have_is_an_error() -> None:
    with pytest.raises(RecipeError, match=r"no task 'tune'\. Known: tone\."):
        with_files({"tasks": {"tone": {}}}, {"tune": {"train": "/b.jsonl"}})


def test_values_inside_each_other_without_end_are_refused() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = [endless]
    with pytest.raises(RecipeError, match="mine: the values are nested too deeply"):
        refuse_depth(endless, "mine")
    refuse_depth({"a": {"b": [{"c": [1]}]}}, "mine")
