"""Explanations: every problem with its place, what was found, and the nearest known name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.tasks.catalog import CATALOG

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]

SST = {"data": "samples", "tasks": ["sst"]}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"sead": 1}, "my.toml: sead: unknown key. Known: "),
        ({"training": {"epoch": 1}}, "my.toml: training.epoch: unknown key. Known: "),
        ({"tasks": {"sst": {"wieght": 2}}}, "my.toml: tasks.sst.wieght: unknown key. Known: "),
        ({"tasks": {"sst": {"train": {"path": "a.csv", "txt": "b"}}}}, "my.toml: tasks.sst.train.0.txt: unknown key. "),
        ({"provenance": {"version": {}}}, "my.toml: provenance.version: unknown key. Known: "),
    ],
)
def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_name(
    change: dict[str, Any], line: str, refusal: Refusal
) -> None:
    (found,) = refusal({**SST, **change})
    assert found.startswith(line)
    nearest = {"sead": "seed", "epoch": "epochs", "wieght": "weight", "txt": "text", "version": "versions"}
    assert found.endswith(f"Did you mean '{nearest[line.split(': ')[1].split('.')[-1]]}'?")


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
    assert found.endswith("Did you mean 'weight'?")


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
    found = refusal({"tasks": {"own": {"target": "number", "text": "a"}}})
    assert found == ["my.toml: tasks.own.kind: missing. One sentence, or two."]
    assert refusal({}) == ["my.toml: tasks: missing. The tasks by name; a task of the catalog has default settings."]
    assert refusal({"tasks": []})[0].startswith("my.toml: tasks: ")


@pytest.mark.parametrize("tasks", [["sst-2"], {"sst-2": {}}], ids=["list", "table"])
def test_an_unknown_task_is_refused_with_the_nearest_name(tasks: Any, refusal: Refusal) -> None:
    (found,) = refusal({"data": "samples", "tasks": tasks})
    assert found.startswith(f"my.toml: tasks.sst-2: unknown task. Known: {', '.join(sorted(CATALOG))}.")
    assert "Did you mean 'sst'?" in found
