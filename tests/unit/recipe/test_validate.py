"""Validation: problems of different kinds are found at once, and no value can break the search for them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe

Refusal = Callable[[dict[str, Any]], list[str]]
Place = tuple[Any, ...]


def places(lines: list[str]) -> list[str]:
    assert all(line.startswith("my.toml: ") for line in lines)
    return [line.split(": ")[1] for line in lines]


def test_problems_of_different_kinds_are_found_together(refusal: Refusal) -> None:
    lines = refusal(
        {
            "sede": 1,
            "data": "/nowhere",
            "tasks": {"sst": {"wieght": 2}, "sts": {"range": [5, 0]}, "quora": {"max_length": 1}, "cfimdb": {}},
            "encoder": {"name": "$NO_SUCH_VARIABLE", "mixout": 0.1, "frozen": True},
            "training": {"epochs": "many"},
            "phases": [{"tasks": ["sst", "stt"]}],
        }
    )
    assert sorted(places(lines)) == [
        "encoder",  # the variable is not set
        "phases.0.tasks",
        "sede",
        "tasks.cfimdb.dev",
        "tasks.cfimdb.train",
        "tasks.quora.max_length",
        "tasks.sst.dev",
        "tasks.sst.train",
        "tasks.sst.wieght",
        "tasks.sts",
        "training.epochs",
    ]


@pytest.mark.parametrize("number", [1e39, "1e39", 1e-39])
def test_numbers_that_float32_cannot_hold_are_refused(refusal: Refusal, number: Any) -> None:
    settings = ("learning_rate", "head_learning_rate", "adapter_learning_rate", "weight_decay", "epsilon")
    optimizer = dict.fromkeys(settings, number)
    task = {"weight": number, "extra": {"x": {"train": "sst-dev.tsv", "factor": number}}}
    lines = refusal(
        {
            "data": "samples",
            "tasks": {"sst": task},
            "training": {"clip": number, "time_limit": 1e39},
            "optimizer": optimizer,
            "pretraining": {"learning_rate": number},
        }
    )
    assert sorted(places(lines)) == sorted(
        [
            *(f"optimizer.{setting}" for setting in settings),
            "pretraining.learning_rate",
            "tasks.sst.extra.x.factor",
            "tasks.sst.weight",
            "training.clip",
            "training.time_limit",
        ]
    )
    assert all(
        f"Expected a number that float32 can hold (1.2e-38 to 3.4e+38, or 0), found {number!r}" in line
        or "time_limit" in line
        for line in lines
    )


def test_a_name_that_is_too_long_for_files_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\na,1\n")
    own = {"kind": "single", "target": "number", "text": "text", "train": str(tmp_path / "rows.csv"), "dev": "auto"}
    make_recipe({"tasks": {"t" * 100: {**own, "extra": {"x" * 100: {"train": own["train"]}}}}})
    lines = refusal({"tasks": {"t" * 101: own, "short": {**own, "extra": {"x" * 101: {"train": own["train"]}}}}})
    assert places(lines) == [f"tasks.{'t' * 101}.name", f"tasks.short.extra.{'x' * 101}"]
    assert all("String should have at most 100 characters" in line for line in lines)


def test_a_task_with_an_unknown_key_is_checked_as_a_whole_too(refusal: Refusal) -> None:
    lines = refusal({"data": "samples", "tasks": {"sst": {"wieght": 2, "loss": "mse"}}})
    assert places(lines) == ["tasks.sst.wieght", "tasks.sst"]


def test_every_contradiction_of_every_task_has_its_own_line(refusal: Refusal) -> None:
    sst = {"label_smoothing": 0.1, "loss": "mse", "weight": 1}
    lines = refusal({"data": "samples", "tasks": {"sst": sst, "quora": {"text": ["a"], "metrics": []}}})
    assert places(lines) == ["tasks.sst"] * 2 + ["tasks.quora"] * 2 and len(set(lines)) == 4


def test_a_wrong_prior_does_not_hide_other_settings(refusal: Refusal) -> None:
    lines = refusal({"data": "samples", "tasks": {"sst": {"prior": 3, "weight": -1}, "sts": {"prior": 0.3}}})
    assert sorted(places(lines)) == ["tasks.sst.prior", "tasks.sst.weight", "tasks.sts.prior"]


def test_an_invalid_task_is_not_an_unknown_one(refusal: Refusal) -> None:
    lines = refusal({"data": "samples", "tasks": {"sst": {"weight": -1}, "sts": {}}, "phases": [{"tasks": ["sst"]}]})
    assert places(lines) == ["tasks.sst.weight"]


def test_an_invalid_setting_is_not_reported_again_for_the_phases_that_inherit_it(refusal: Refusal) -> None:
    values = {"data": "samples", "tasks": ["sst"], "training": {"epochs": 0}, "optimizer": 3}
    lines = refusal({**values, "phases": [{}, {"training": {"epochs": -1}}]})
    assert places(lines) == ["training.epochs", "optimizer", "phases.1.training.epochs"]


def test_files_below_a_data_folder_that_is_not_known_are_not_reported(refusal: Refusal) -> None:
    lines = refusal({"data": "$NO_SUCH_VARIABLE", "tasks": ["sst", "sst"], "run": {"device": "gpu"}})
    assert places(lines) == ["data", "tasks", "run.device"]


FULL: dict[str, Any] = {
    "seed": 1,
    "data": "samples",
    "encoder": {"name": "minilm", "dropout": 0.1, "frozen": False},
    "adapters": {"name": "pal", "size": 3},
    "relation": {"name": "linear", "tasks": ["quora", "sts"]},
    "tasks": {
        "sst": {"prior": [0.2] * 5, "extra": {"cfimdb": {"train": "sst-train.tsv", "labels": "x4"}}},
        "quora": {"train": ["quora-train.tsv"], "head": {"name": "mlp"}},
        "sts": {"teachers": ["runs/x"]},
    },
    "pretraining": {"text": [], "epochs": 1},
    "objectives": ["rdrop", {"name": "smart", "tasks": ["sst"]}],
    "training": {"epochs": 2, "trains": ["heads"], "sampler": {"name": "annealed"}},
    "optimizer": {"learning_rate": 1e-4, "betas": [0.9, 0.99], "schedule": "stlr"},
    "phases": [{"name": "a", "tasks": ["sst"], "training": {"epochs": 1}}, {"optimizer": {"learning_rate": 1}}],
    "run": {"device": "cpu"},
}
ODD: list[Any] = [3, -1, "x", "", [], {}, None, ["x"], {"x": 1}, [[1]], True, "$NOPE/a", {"a": {"b": 1}}, [None]]


def below(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of every value inside a nested value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*place, key)
        yield from below(child, (*place, key))


@pytest.mark.parametrize("seed", range(20))
def test_no_value_breaks_the_search_for_problems(seed: int) -> None:
    make_recipe(FULL)
    generator, everywhere = random.Random(seed), list(below(FULL))
    for _ in range(25):
        values = copy.deepcopy(FULL)
        for *parents, key in generator.sample(everywhere, 3):
            table: Any = values
            for parent in parents:
                table = table[parent] if isinstance(table, dict) and parent in table else {}
            if isinstance(table, dict):
                table[key] = copy.deepcopy(generator.choice(ODD))
        try:
            make_recipe(values)
        except RecipeError as error:
            assert error.message.strip()  # any other exception fails the test
