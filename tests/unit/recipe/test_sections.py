"""Sections of a recipe: impossible numbers are refused with their place."""

from __future__ import annotations

import math
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe


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
def test_an_impossible_number_is_refused_with_its_place(
    tiny_recipe: dict[str, Any], key: str, value: Any, place: str
) -> None:
    section, _, name = key.rpartition(".")
    place_in_recipe = tiny_recipe
    for parent in section.split("."):
        place_in_recipe = place_in_recipe.setdefault(parent, {})
    place_in_recipe[name] = value
    with pytest.raises(RecipeError) as caught:
        make_recipe(tiny_recipe)
    assert f"{place or key}: " in caught.value.message
