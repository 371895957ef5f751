"""Defaults: the catalog's settings, under those of the recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.tasks.catalog import CATALOG, HUB_SOURCES, SAMPLES

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


def test_a_task_with_a_training_file_of_its_own_is_not_the_catalogs(tmp_path: Path) -> None:
    rows = "\n".join(["first,second,score", *(f"a dog {n},a cat {n},{n}" for n in (7, 8, 9, 7, 8, 9))])
    (tmp_path / "own.csv").write_text(rows + "\n")
    own = {"train": "own.csv", "text": ["first", "second"], "label": "score", "target": "number"}
    task = make_recipe({"tasks": {"sts": own}}, folder=tmp_path).tasks["sts"]
    assert task.range is None and task.kind == "pair"  # the catalog's range is 0 to 5
    task = make_recipe({"tasks": {"sts": {**own, "catalog": "sts"}}}, folder=tmp_path).tasks["sts"]
    assert task.range == CATALOG["sts"]["range"]


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 4, "weight": 2.0, "metrics": ["macro_f1"]},
        {"target": "classes"},
        {"classes": ["1", "2", "3", "4", "5"]},
        {"head": "mlp", "prior": [0.2] * 5},
    ],
)
def test_settings_without_a_training_file_leave_a_task_in_the_catalog(settings: dict[str, Any]) -> None:
    task = make_recipe({"data": "samples", "tasks": {"sst": settings}}).tasks["sst"]
    assert (task.text, task.label) == (("sentence",), "sentiment")


def test_a_task_of_any_name_can_use_the_catalogs_settings() -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"grades": {"catalog": "sst"}, "sst": {}}})
    one, other = (recipe.tasks[name].model_copy(update={"name": ""}) for name in ("grades", "sst"))
    assert one == other


def test_an_unknown_task_of_the_catalog_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"tasks.own.catalog: unknown task 'st'. Known: .*Did you mean 's"):
        make_recipe({"tasks": {"own": {"catalog": "st"}}})


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_written_recipe_means_the_same_without_the_catalog(name: str, tmp_path: Path) -> None:
    recipe = make_recipe({"data": "samples", "tasks": {name: {}}})
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe))
    assert load_recipe(tmp_path / "recipe.toml") == recipe


def test_a_data_file_with_the_name_of_a_known_task_is_read_as_it_is(tmp_path: Path) -> None:
    rows = "\n".join(["sentence,sentiment", *(f"a film like number {n},{n % 2}" for n in range(8))])
    (tmp_path / "sst.csv").write_text(rows + "\n")
    assert load_recipe(tmp_path / "sst.csv").tasks["sst"].classes == ("0", "1")
