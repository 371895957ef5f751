"""What is refused before anything is loaded, with its place in the recipe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from palbert.build import check_names
from palbert.errors import RecipeError
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
        ({}, 3.0, "tasks.sts.weight: where a step has one task, training.clip = 1 takes this out again"),
        ({"balance": "normalised"}, 1.0, "training.balance: where a step has one task"),
        ({"balance": "normalised", "clip": math.inf}, 3.0, ""),
        ({"balance": "normalised", "sampler": "mixed"}, 3.0, ""),
        ({}, 1.0, ""),
    ],
)
def test_weights_that_clipping_takes_out_again_are_mentioned(
    tiny_recipe: dict[str, Any], caplog: pytest.LogCaptureFixture, training: Any, weight: float, warned: str
) -> None:
    tiny_recipe["training"] |= {"sampler": "annealed", **training}
    tiny_recipe["tasks"] = {"sst": {}, "sts": {"weight": weight}}
    check_names(make_recipe(tiny_recipe))
    assert ("takes this out again" in caplog.text) == bool(warned) and warned in caplog.text


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
WRONG = {
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
SENSELESS = {
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
    if place != "training.gradients":  # the solvers behind these have words of their own
        assert option in caught.value.message


def test_factors_that_are_no_table_are_refused_beside_those_of_extra_sets(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["tasks"]["sst"]["extra"] = {"more": {"train": "sst-train.tsv", "factor": 0.5}}
    tiny_recipe["training"]["sampler"] = {"name": "annealed", "factors": 0.1}
    with pytest.raises(RecipeError, match=r"training\.sampler: factors: expected a number for each set"):
        check_names(make_recipe(tiny_recipe))
