"""Contradictions: settings that are valid one by one, but not together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]


def test_a_task_has_one_name() -> None:
    with pytest.raises(RecipeError, match=r"tasks\.sst\.name: 'other' differs from the name of the task. Leave it out"):
        make_recipe({"data": "samples", "tasks": {"sst": {"name": "other"}}})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"phases": [{"tasks": ["stt"]}]}, "phases.0.tasks: unknown task 'stt'. Known: sst, sts. Did you mean"),
        ({"phases": [{"training": {"log_every": 3}}]}, "phases.0.training.log_every: this is set for the whole run"),
        ({"encoder": {"frozen": True}, "training": {"trains": ["encoder"]}}, "training.trains: names the encoder"),
        ({"training": {"trains": ["adapters"]}}, "training.trains: names only adapters, but the recipe has none"),
        ({"phases": [{"training": {"trains": ["adapters"]}}]}, "phases.0.training.trains: names only adapters"),
        ({"encoder": {"frozen": True, "mixout": 0.1}}, "encoder.mixout: mixes in pretrained weights"),
        ({"encoder": {"mixout": 0.1}, "training": {"trains": ["heads"]}}, "encoder.mixout: mixes in pretrained"),
        ({"objectives": ["simcse"]}, "objectives.0: simcse compares two passes"),
        ({"objectives": ["smart", "rdrop"], "tasks": {"sst": {"dropout": 0}}}, "objectives.1: rdrop compares two"),
        ({"tasks": {}}, "tasks: expected at least one task, found none"),
    ],
)
def test_a_contradiction_is_refused_with_its_place(refusal: Refusal, change: dict[str, Any], problem: str) -> None:
    still = {"encoder": {"dropout": 0.0, "attention_dropout": 0.0}} if "objectives" in change else {}
    (line,) = refusal({"data": "samples", "tasks": ["sst", "sts"], **still, **change})
    assert line.startswith(f"my.toml: {problem}")


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": {"mixout": 0.1}, "phases": [{"training": {"trains": ["heads"]}}, {}]},
        {"encoder": {"dropout": 0.0, "attention_dropout": 0.0}, "objectives": [{"name": "simcse", "dropout": 0.2}]},
        {"encoder": {"dropout": 0.0, "attention_dropout": 0.0}, "objectives": ["rdrop"]},
        {"encoder": {"dropout": 0.0, "attention_dropout": 0.0}, "objectives": [{"name": "simcse", "weight": 0}]},
        {"adapters": "pal", "training": {"trains": ["adapters"]}},
    ],
)
def test_settings_that_fit_together_are_accepted(change: dict[str, Any]) -> None:
    assert make_recipe({"data": "samples", "tasks": ["sst", "sts"], **change}).tasks


def test_all_contradictions_are_reported_together(refusal: Refusal) -> None:
    lines = refusal(
        {
            "data": "samples",
            "tasks": {"sst": {"name": "other"}, "sts": {}},
            "encoder": {"frozen": True, "mixout": 0.1, "dropout": 0.0, "attention_dropout": 0.0},
            "objectives": ["simcse"],
            "training": {"trains": ["encoder"]},
            "phases": [{"tasks": ["stt"], "training": {"trains": ["heads"]}}],
        }
    )
    assert {line.split(": ")[1] for line in lines} == {
        "tasks.sst.name",
        "phases.0.tasks",
        "training.trains",
        "encoder.mixout",
        "objectives.0",
    }


def test_checks_that_read_an_invalid_section_are_skipped(refusal: Refusal) -> None:
    base = {"data": "samples", "tasks": ["sst"]}
    assert len(refusal({**base, "adapters": {"size": 3}, "training": {"trains": ["adapters"]}})) == 1
    assert len(refusal({**base, "encoder": {"mixout": 0.1, "frozen": "x"}, "training": {"trains": ["heads"]}})) == 1
