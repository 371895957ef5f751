"""Laws of build: what a recipe may ask of the classes."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest

from palbert.build import check_lengths, check_names
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
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

    check_lengths(recipe(least).tasks, tokenizer)
    if least > 3:
        with pytest.raises(RecipeError, match=rf"tasks.{task}.max_length: {least - 1} .*at least {least}"):
            check_lengths(recipe(least - 1).tasks, tokenizer)


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
