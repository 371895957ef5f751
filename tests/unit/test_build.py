"""Laws of build: what a recipe may ask of the classes."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from palbert.build import check_lengths, check_names
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.registry import ADAPTERS, AVERAGES, BALANCES, GRADIENTS, HEADS, OBJECTIVES, RELATIONS, SAMPLERS, SCHEDULES
from palbert.tasks.spec import SIAMESE_HEADS
from palbert.training.averaging import NoAverage
from palbert.verbs.train import train


@pytest.mark.parametrize(
    ("task", "settings", "least"),
    [
        ("sst", {}, 3),
        ("sts", {}, 5),
        ("sts", {"pair_input": "siamese", "head": "concat"}, 3),
    ],
    ids=["single", "joint", "siamese"],
)
def test_a_length_without_room_for_text_is_refused(
    tiny_recipe: dict[str, Any], tokenizer: TextTokenizer, task: str, settings: dict[str, Any], least: int
) -> None:
    def recipe(length: int) -> Any:
        values = copy.deepcopy(tiny_recipe)
        values["tasks"] = {task: {**settings, "max_length": length}}
        return make_recipe(values)

    check_lengths(recipe(least).sets, tokenizer)
    if least > 3:
        with pytest.raises(RecipeError, match=rf"tasks.{task}.max_length: {least - 1} .*at least {least}"):
            check_lengths(recipe(least - 1).sets, tokenizer)


def test_a_length_beyond_the_encoders_is_refused(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["tasks"]["sst"]["max_length"] = 129
    with pytest.raises(RecipeError, match=r"tasks\.sst\.max_length: 129 is more than the encoder's 128"):
        train(make_recipe(tiny_recipe), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


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
    "tasks.sst.head": {name: cls for name, cls in HEADS.items() if name not in SIAMESE_HEADS},
    "tasks.sts.head": {name: HEADS[name] for name in SIAMESE_HEADS},
    "training.sampler": SAMPLERS,
    "training.gradients": GRADIENTS,
    "training.balance": BALANCES,
    "training.average": AVERAGES,
    "optimizer.schedule": SCHEDULES,
    "pretraining.schedule": SCHEDULES,
}
"""What can be named where."""
OWN = {"layers", "outputs", "parameters"}
"""Arguments by name that palbert gives."""


def options_of(cls: Any) -> list[str]:
    """Name what a recipe may set of a part."""
    parameters = inspect.signature(cls).parameters.values()
    return [each.name for each in parameters if each.kind == each.KEYWORD_ONLY and each.name not in OWN]


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
SENSELESS = {
    place: {f"{name}.{option}": ["senseless"] for name, cls in table.items() for option in options_of(cls)}
    for place, table in PARTS.items()
}
"""A word that no option takes, for every option there is."""


def cases(options: dict[str, dict[str, list[Any]]]) -> Iterator[Any]:
    """Give every wrong value of every option as a test."""
    for place, parts in options.items():
        for part, wrong in parts.items():
            name, _, option = part.partition(".")
            yield from (pytest.param(place, name, option, value, id=f"{place}-{part}-{value!r}") for value in wrong)


def put(values: dict[str, Any], place: str, value: Any) -> None:
    """Set one value of a recipe."""
    *parents, last = place.split(".")
    section = values
    for parent in parents:
        section = section.setdefault(parent, {})
    section[last] = value


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


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("optimizer.betas", [1.5, 0.9], "optimizer.betas.0"),
        ("optimizer.betas", [0.9, 1], "optimizer.betas.1"),
        ("optimizer.betas", [-0.1, 0.9], "optimizer.betas.0"),
        ("optimizer.betas", [math.nan, 0.9], "optimizer.betas.0"),
        *((f"optimizer.{name}learning_rate", math.inf, "") for name in ("", "head_", "adapter_")),
        *((f"optimizer.{name}", math.inf, "") for name in ("weight_decay", "epsilon", "layer_decay")),
        ("pretraining.learning_rate", math.inf, ""),
        ("tasks.sst.weight", math.inf, ""),
        ("tasks.sst.weight", math.nan, ""),
        ("tasks.sst.dropout", math.nan, ""),
        ("training.clip", math.nan, ""),
    ],
)
def test_a_number_without_a_meaning_is_refused_with_its_place(
    tiny_recipe: dict[str, Any], key: str, value: Any, place: str
) -> None:
    put(tiny_recipe, key, value)
    with pytest.raises(RecipeError) as caught:
        make_recipe(tiny_recipe)
    assert f"{place or key}: " in caught.value.message


class Choosy(NoAverage):
    """A user's own average, with a mistake."""

    def __init__(self, model: Any) -> None:
        raise ZeroDivisionError("my own mistake")


def test_a_mistake_in_a_users_own_class_is_not_called_a_mistake_of_the_recipe(
    tiny_recipe: dict[str, Any],
) -> None:
    tiny_recipe["training"]["average"] = f"{__name__}:Choosy"
    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        check_names(make_recipe(tiny_recipe))


class Broken(torch.nn.Module):
    """A part in a table whose options are not all checked."""

    def __init__(self, hidden_size: int, *, parts: int = 1) -> None:
        super().__init__()
        self.width = hidden_size / parts


@pytest.mark.parametrize(
    ("parts", "says"), [(0, "relation: division by zero."), ("two", "relation: unsupported operand")]
)
def test_what_torch_or_python_refuse_in_a_part_of_palberts_is_told_with_its_place(
    tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch, parts: Any, says: str
) -> None:
    monkeypatch.setitem(RELATIONS.paths, "mlp", f"{__name__}:Broken")
    tiny_recipe["relation"] = {"name": "mlp", "tasks": ["quora", "sts"], "parts": parts}
    with pytest.raises(RecipeError, match=says):
        check_names(make_recipe(tiny_recipe))
