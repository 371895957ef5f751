"""What is refused before anything is loaded, with its place in the recipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from palbert.build import check_names
from palbert.errors import MissingExtraError, RecipeError
from palbert.recipe.load import make_recipe
from palbert.registry import (
    ADAPTERS,
    AVERAGES,
    BALANCES,
    GRADIENTS,
    HEADS,
    OBJECTIVES,
    POOLINGS,
    RELATIONS,
    SAMPLERS,
    SCHEDULES,
)


@pytest.mark.parametrize(
    ("training", "weight", "warned"),
    [
        ({}, 3.0, "tasks.sts.weight: where a step has one task, training.clip = 1 removes its effect"),
        ({"balance": "normalised"}, 1.0, "training.balance: where a step has one task"),
        ({"balance": "normalised", "clip": math.inf}, 3.0, ""),
        ({"balance": "normalised", "sampler": "mixed"}, 3.0, ""),
        ({}, 1.0, ""),
    ],
)
def test_weights_without_effect_because_of_clipping_are_reported(
    tiny_recipe: dict[str, Any], caplog: pytest.LogCaptureFixture, training: Any, weight: float, warned: str
) -> None:
    tiny_recipe["training"] |= {"sampler": "annealed", **training}
    tiny_recipe["tasks"] = {"sst": {}, "sts": {"weight": weight}}
    check_names(make_recipe(tiny_recipe))
    assert ("removes its effect" in caplog.text) == bool(warned) and warned in caplog.text


# Options of named parts

PARTS: dict[str, Mapping[str, Any]] = {
    "adapters": ADAPTERS,
    "relation": RELATIONS,
    "objectives.0": OBJECTIVES,
    "tasks.sst.head": {name: cls for name, cls in HEADS.items() if cls.vectors == 1},
    "tasks.sts.head": {name: cls for name, cls in HEADS.items() if cls.vectors == 2},
    "tasks.sst.pooling": POOLINGS,
    "training.sampler": SAMPLERS,
    "training.gradients": GRADIENTS,
    "training.balance": BALANCES,
    "training.average": AVERAGES,
    "optimizer.schedule": SCHEDULES,
    "pretraining.schedule": SCHEDULES,
}
"""What can be named where."""
WRONG: dict[str, dict[str, list[Any]]] = {
    "adapters": {
        "pal.size": [0, -1, 1.5, True],
        "pal.heads": [0, 1.5],
        "pal.shared_projections": [1, "no"],
        "pal.dropout": [-0.1, 1, 1.5, math.nan],
        "low-rank.size": [0],
        "low-rank.shared_projections": [0],
        "houlsby.size": [0],
        "lora.rank": [0, 0.5],
        "lora.alpha": [0, -1, math.inf, math.nan],
        "lora.targets": [[], "query", 3, ["keys"], [1]],
        "lora.dropout": [1, True],
        "lora.layers": [3],
    },
    "relation": {"mlp.expansion": [0, 0.5, True]},
    "objectives.0": {
        "smart.weight": [-1, math.inf, math.nan, True],
        "smart.epsilon": [0, math.inf],
        "smart.sigma": [0],
        "smart.eta": [-1],
        "smart.steps": [0, 1.5, True],
        "smart.norm": ["l1", 2],
        "proximal.beta": [1, -0.1],
        "rdrop.weight": [-1],
        "simcse.temperature": [0, math.inf],
        "simcse.projection": [1, "no"],
        "simcse.dropout": [0, 1],
        "supervised-simcse.temperature": [0],
        "supervised-simcse.hard_negatives": ["no"],
        "distillation.weight": [-0.1, 1.5],
        "distillation.temperature": [0],
    },
    "tasks.sst.head": {
        "linear.dropout": [-1, 1, 2, True],
        "linear.outputs": [5],
        "mlp.dropout": [2],
    },
    "tasks.sst.pooling": {"attention.dropout": [-0.1, 1, True]},
    "tasks.sts.head": {
        "concat.dropout": [2],
        "concat-difference.dropout": [2],
        "cosine.dropout": [2],
        "cosine.scale": [0, -5, math.inf],
    },
    "training.sampler": {
        "annealed.decay": [math.inf],
        "annealed.factors": [0.1, {"sst": -1}, {"sst": math.inf}, {"sst": True}],
        "temperature.temperature": [0, math.nan],
        "round-robin.cycle": [1],
        "adaptive-round-robin.rounds": [-1, 0.5],
    },
    "training.balance": {"normalised.beta": [1, -0.1, True]},
    "training.average": {"ema.decay": [1], "swa.start": [1, -0.5]},
    "optimizer.schedule": {
        "stlr.warmup": [1.5, math.nan],
        "cosine.end": [2],
        "slanted-triangle.cut_frac": [0, 1],
        "slanted-triangle.ratio": [0.5, math.inf],
    },
    "pretraining.schedule": {"stlr.warmup": [-1]},
}
REGISTRIES = (ADAPTERS, AVERAGES, BALANCES, GRADIENTS, HEADS, OBJECTIVES, POOLINGS, RELATIONS, SAMPLERS, SCHEDULES)
SENSELESS: dict[str, dict[str, list[Any]]] = {
    place: {
        f"{name}.{option}": ["senseless"]
        for name, cls in table.items()
        for registry in REGISTRIES
        if registry.get(name) is cls
        for option in registry.describe(name).options
    }
    for place, table in PARTS.items()
}
"""A word that no option takes, for every option there is."""


def put(values: dict[str, Any], place: str, value: Any) -> None:
    """Set one value of a recipe."""
    *parents, last = place.split(".")
    section = values
    for parent in parents:
        section = section.setdefault(parent, {})
    section[last] = value


def cases(options: dict[str, dict[str, list[Any]]]) -> Iterator[Any]:
    """Give every wrong value of every option as a test."""
    for place, parts in options.items():
        for part, wrong in parts.items():
            name, _, option = part.partition(".")
            yield from (pytest.param(place, name, option, value, id=f"{place}-{part}-{value!r}") for value in wrong)


@pytest.mark.parametrize(("place", "name", "option", "value"), [*cases(WRONG), *cases(SENSELESS)])
def test_a_wrong_option_of_a_part_is_refused_with_its_place(
    tiny_recipe: dict[str, Any], place: str, name: str, option: str, value: Any
) -> None:
    part = {"name": name, option: value}
    if place == "training.gradients":
        pytest.importorskip("torchjd")
    if place == "tasks.sts.head":
        tiny_recipe["tasks"]["sts"]["pair_input"] = "siamese"
    if place == "relation":
        part["tasks"] = ["quora", "sts"]
    if place == "objectives.0":
        tiny_recipe["objectives"] = [part]
    else:
        put(tiny_recipe, place, part)
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe(tiny_recipe))
    assert caught.value.message.startswith(f"{place}: ")
    if place != "training.gradients":  # their solvers have their own messages
        assert option in caught.value.message


def test_factors_that_are_not_a_table_are_refused_next_to_those_of_extra_sets(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["tasks"]["sst"]["extra"] = {"more": {"train": "sst-train.tsv", "factor": 0.5}}
    tiny_recipe["training"]["sampler"] = {"name": "annealed", "factors": 0.1}
    with pytest.raises(RecipeError, match=r"training\.sampler: factors: expected a number for each set"):
        check_names(make_recipe(tiny_recipe))


def test_all_wrong_parts_of_a_recipe_are_reported_at_once(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["adapters"] = {"name": "pal", "size": 0}
    tiny_recipe["relation"] = {"name": "mlp", "tasks": ["quora", "sst"], "expansion": 0}
    tiny_recipe["objectives"] = [{"name": "rdrop", "weight": -1}, {"name": "smart", "steps": 0, "tasks": ["sts"]}]
    tiny_recipe["tasks"]["sst"] |= {"head": "concat", "metrics": ["pearson"], "pooling": {"name": "mean", "size": 1}}
    tiny_recipe["tasks"]["sst"]["loss"] = {"name": "focal", "gamma": "2"}
    tiny_recipe["training"] |= {"sampler": {"name": "annealed", "decya": 1}, "average": {"name": "ema", "decay": 2}}
    tiny_recipe["training"]["balance"] = {"name": "normalised", "beta": 2}
    tiny_recipe["optimizer"]["schedule"] = {"name": "stlr", "warmup": 3, "cooldown": 1}
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe(tiny_recipe))
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "adapters",
        "relation",
        "relation.tasks",
        "tasks.sst.metrics",
        "tasks.sst.head",
        "tasks.sst.pooling",
        "tasks.sst.loss",
        "training.sampler",
        "optimizer.schedule",
        "objectives.0",
        "objectives.1",
        "training.balance",
        "training.average",
    ]
    assert "unknown option 'decya'. Known: decay, factors. Did you mean 'decay'?" in lines[7]


def test_the_wrong_parts_of_all_phases_are_reported_with_their_phase(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["phases"] = [
        {"training": {"average": {"name": "ema", "decay": 2}}},
        {},
        {"optimizer": {"schedule": {"name": "stlr", "warmup": 2}}, "objectives": [{"name": "smart", "steps": 0}]},
    ]
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe(tiny_recipe))
    places = [line.partition(": ")[0] for line in str(caught.value).splitlines()]
    assert places == ["phases.0.training.average", "phases.2.optimizer.schedule", "phases.2.objectives.0"]


def test_a_missing_extra_is_named_alone_or_next_to_other_problems(
    tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchjd", None)
    tiny_recipe["training"] |= {"sampler": "mixed", "gradients": "pcgrad"}
    with pytest.raises(MissingExtraError, match=r"palbert\[gradients\]"):
        check_names(make_recipe(tiny_recipe))
    tiny_recipe["training"]["average"] = {"name": "ema", "decay": 2}
    with pytest.raises(RecipeError, match=r"palbert\[gradients\]'\ntraining\.average: decay"):
        check_names(make_recipe(tiny_recipe))


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, ["tasks.sts.extra.nli: no objective takes these triplets."]),
        ({"encoder": {"frozen": True}}, ["tasks.sts.extra.nli: no objective", "tasks.sts.extra.nli: triplets train"]),
        (
            {"objectives": [{"name": "supervised-simcse", "tasks": ["sst"]}]},
            ["objectives.0: supervised-simcse contrasts triplets", "tasks.sts.extra.nli: no objective"],
        ),
        ({"objectives": [{"name": "supervised-simcse", "tasks": ["sts"]}]}, []),
    ],
)
def test_triplets_need_a_term_that_takes_them_and_something_that_learns(
    tiny_recipe: dict[str, Any], tmp_path: Path, changes: dict[str, Any], problems: list[str]
) -> None:
    (tmp_path / "nli.csv").write_text("anchor,positive,negative\na,b,c\n", "utf-8")
    extra = {"train": str(tmp_path / "nli.csv"), "form": "triplets", "text": ["anchor", "positive", "negative"]}
    tiny_recipe["tasks"]["sts"]["extra"] = {"nli": extra}
    tiny_recipe["encoder"] |= changes.get("encoder", {})
    tiny_recipe |= {"objectives": changes.get("objectives", [])}
    if not problems:
        check_names(make_recipe(tiny_recipe))
        return
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe(tiny_recipe))
    lines = str(caught.value).splitlines()
    assert len(lines) == len(problems) and all(map(str.startswith, lines, problems))
