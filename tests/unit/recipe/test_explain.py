"""Explanations: every problem with its place, what was found, and the nearest known name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.tasks.catalog import CATALOG

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]

SST = {"data": "samples", "tasks": ["sst"]}


@pytest.mark.parametrize(
    ("change", "place", "likely"),
    [
        ({"sead": 1}, "sead", "seed"),
        ({"training": {"epoch": 1}}, "training.epoch", "training.epochs"),
        ({"tasks": {"sst": {"wieght": 2}}}, "tasks.sst.wieght", "tasks.sst.weight"),
        (
            {"tasks": {"sst": {"train": {"path": "a.csv", "txt": "b"}}}},
            "tasks.sst.train.0.txt",
            "tasks.sst.train.0.text",
        ),
        ({"provenance": {"version": {}}}, "provenance.version", "provenance.versions"),
        ({"training": {"learning_rate": 1}}, "training.learning_rate", "optimizer.learning_rate"),
        ({"lr": 1}, "lr", "optimizer.learning_rate"),
        ({"model": "minilm"}, "model", "encoder"),
        ({"training": {"num_epochs": 3}}, "training.num_epochs", "training.epochs"),
    ],
)
def test_an_unknown_key_is_refused_with_its_place_and_the_likely_one(
    change: dict[str, Any], place: str, likely: str, refusal: Refusal
) -> None:
    assert refusal({**SST, **change}) == [f"my.toml: {place}: unknown key. Did you mean {likely}?"]


def test_the_known_keys_are_listed_where_nothing_is_near_and_else_as_details(refusal: Refusal) -> None:
    [found] = refusal({**SST, "run": {"zzz": 1}})
    assert found.startswith("my.toml: run.zzz: unknown key. Known: ") and "precision" in found
    with pytest.raises(RecipeError) as caught:
        make_recipe({**SST, "sead": 1})
    assert caught.value.details.startswith("recipe: Known: adapters, ") and "Known" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "place", "found"),
    [
        ({"seed": "one"}, "seed", "'one'"),
        ({"seed": -1}, "seed", "-1"),
        ({"training": {"epochs": 2.5}}, "training.epochs", "2.5"),
        ({"training": {"epochs": 0}}, "training.epochs", "0"),
        ({"training": {"clip": 0}}, "training.clip", "0"),
        ({"optimizer": {"learning_rate": "fast"}}, "optimizer.learning_rate", "'fast'"),
        ({"optimizer": {"learning_rate": -1e-5}}, "optimizer.learning_rate", "-1e-05"),
        ({"encoder": {"dropout": 1.0}}, "encoder.dropout", "1.0"),
        ({"run": {"device": "gpu"}}, "run.device", "'gpu'"),
        ({"run": {"precision": "fp8"}}, "run.precision", "'fp8'"),
        ({"overall": "median"}, "overall", "'median'"),
        ({"tasks": {"sst": {"max_length": 1}}}, "tasks.sst.max_length", "1"),
        ({"tasks": {"sst": {"labels": 4}}}, "tasks.sst.labels", "4"),
        ({"tasks": {"sst": 3}}, "tasks.sst", "3"),
        ({"tasks": 3}, "tasks", "3"),
        ({"data": 3}, "data", "3"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_what_was_found(
    change: dict[str, Any], place: str, found: str, refusal: Refusal
) -> None:
    lines = refusal({**SST, **change})
    assert lines[0].startswith(f"my.toml: {place}: ")
    assert lines[0].endswith(f", found {found}.")


@pytest.mark.parametrize("name", ["int", "train"])
def test_a_task_with_an_odd_name_keeps_it_in_the_place(name: str, refusal: Refusal) -> None:
    own = {"kind": "single", "target": "number", "text": "a", "wieght": 1}
    found, *_ = refusal({"tasks": {name: own}})
    assert found.startswith(f"my.toml: tasks.{name}.wieght: unknown key.")
    assert found.endswith(f"Did you mean tasks.{name}.weight?")


def test_all_invalid_settings_are_reported_together(refusal: Refusal) -> None:
    found = refusal(
        {
            "sede": 1,
            "data": "samples",
            "training": {"epochs": "many", "sampler": "aneald"},
            "tasks": {"sst": {"loss": "mse"}, "own": {"target": "number"}},
        }
    )
    places = {line.split(": ")[1] for line in found}
    assert places == {"sede", "training.epochs", "training.sampler", "tasks.sst", "tasks.own.kind", "tasks.own.text"}
    assert len(found) == len(places)


def test_a_missing_setting_is_refused_with_what_it_means(refusal: Refusal) -> None:
    found = refusal({"tasks": {"own": {"kind": "single", "text": "a"}}})
    assert len(found) == 1 and found[0].startswith("my.toml: tasks.own.target: missing. What is predicted: ")
    assert refusal({}) == ["my.toml: tasks: missing. The tasks by name; a task of the catalog has default settings."]
    assert refusal({"tasks": []})[0].startswith("my.toml: tasks: ")


@pytest.mark.parametrize("tasks", [["sst-2"], {"sst-2": {}}], ids=["list", "table"])
def test_an_unknown_task_is_refused_with_the_nearest_name(tasks: Any, refusal: Refusal) -> None:
    (found,) = refusal({"data": "samples", "tasks": tasks})
    assert found.startswith(f"my.toml: tasks.sst-2: unknown task. Known: {', '.join(sorted(CATALOG))}.")
    assert "Did you mean 'sst'?" in found
