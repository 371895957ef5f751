"""Defaults: the catalog's settings, under those of the recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.tasks.catalog import CATALOG, HUB_SOURCES

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]


def test_a_task_named_twice_in_a_list_is_refused() -> None:
    with pytest.raises(RecipeError, match="tasks: named twice: sst"):
        make_recipe({"data": "samples", "tasks": ["sst", "sts", "sst"]})


def test_hub_data_needs_no_files() -> None:
    recipe = make_recipe({"data": "hub", "tasks": sorted(HUB_SOURCES)})
    assert all(task.train[0].path.startswith("hf:") for task in recipe.tasks.values())


def test_the_courses_test_files_are_used_if_they_exist(tmp_path: Path) -> None:
    for name in ("ids-sst-train.csv", "ids-sst-dev.csv"):
        (tmp_path / name).touch()
    assert make_recipe({"data": str(tmp_path), "tasks": ["sst"]}).tasks["sst"].test == ()
    (tmp_path / "ids-sst-test-student.csv").touch()
    (source,) = make_recipe({"data": str(tmp_path), "tasks": ["sst"]}).tasks["sst"].test
    assert source.path == str(tmp_path / "ids-sst-test-student.csv")


def test_a_recipes_own_settings_take_precedence_over_the_catalogs() -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"sst": {"pooling": "mean", "max_length": 9}}})
    assert (recipe.tasks["sst"].pooling.name, recipe.tasks["sst"].max_length) == ("mean", 9)
    assert recipe.tasks["sst"].classes == CATALOG["sst"]["classes"]
