"""Check: what a recipe cannot have is reported before the first trial, all of it, with its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import load_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.space import GENERAL, load_space
from palbert.verbs.tuning.check import Load, check_space, suited

LINEAR: dict[str, Any] = {"low": 1e-5, "high": 1e-4}


def loading(values: dict[str, Any] | str) -> Load:
    def load(overrides: Sequence[str]) -> Recipe:
        return load_recipe(values, overrides=overrides)

    return load


def problems(space: dict[str, Any], values: dict[str, Any] | str = "demo") -> list[str]:
    with pytest.raises(RecipeError) as caught:
        check_space(load_space(space), loading(values))
    return caught.value.message.splitlines()


def test_all_problems_are_reported_together_each_once() -> None:
    assert problems(
        {
            "optimizer.learning_rat": LINEAR,
            "training.epochs": {"low": 0, "high": 3},
            "training.sampler": ["anealed", "mixed"],
            "training.batch_size": [8],
        }
    ) == [
        "space: training.batch_size: expected a list of two or more choices, found [8].",
        "space: optimizer.learning_rat: unknown key. Did you mean optimizer.learning_rate?",
        "space: training.epochs: Input should be greater than or equal to 1, found 0.",
        "space: training.sampler: unknown name 'anealed'. Known: adaptive-round-robin, annealed, mixed, proportional, "
        "round-robin, sequential, square-root, temperature. Did you mean 'annealed'?",
    ]


def test_values_that_contradict_each_other_are_named_together() -> None:
    found = problems({"adapters": ["lora", "pal"], "adapters.rank": [4, 8]})
    problem = "adapters: unknown option 'rank'. Known: dropout, heads, shared_projections, size."
    assert found == [f"space: adapters = pal, adapters.rank = {rank}: {problem}" for rank in (4, 8)]


def test_a_large_space_is_checked_by_pairs() -> None:
    many: dict[str, Any] = {f"tasks.{task}.weight": [0.5, 1.0, 2.0] for task in ("sst", "quora", "sts")}
    many |= {"training.epochs": [2, 3, 4], "training.batch_size": [4, 8, 16], "training.clip": [0.5, 1.0, 2.0]}
    check_space(load_space(many), loading("demo"))
    found = problems({**many, "adapters": ["lora", "pal"], "adapters.rank": [4, 8]})
    assert any("adapters = pal" in line and "unknown option 'rank'" in line for line in found)


def test_a_setting_that_every_phase_has_of_its_own_is_refused() -> None:
    values = {
        "data": "samples",
        "tasks": ["sst"],
        "phases": [{"name": "all", "optimizer": {"learning_rate": 1e-3}}],
    }
    assert problems({"optimizer.learning_rate": LINEAR}, values) == [
        "space: optimizer.learning_rate: has no effect on this recipe, whose phases have a setting of their own."
    ]
    check_space(load_space({"phases.0.optimizer.learning_rate": LINEAR}), loading(values))


def test_the_general_space_fits_every_recipe() -> None:
    general = load_space(GENERAL)
    everything = {each.key for each in general.dimensions}
    left_out = {"optimizer.adapter_learning_rate"}
    for values, missing in (
        ("demo", left_out),
        ({"data": "samples", "tasks": ["sst"]}, {*left_out, "training.sampler"}),
        ({"data": "samples", "tasks": ["sst", "sts"], "adapters": "lora"}, set()),
        (
            {"data": "samples", "tasks": ["sst", "sts"], "adapters": "lora", "encoder": {"frozen": True}},
            {"optimizer.learning_rate", "optimizer.layer_decay"},
        ),
    ):
        space = suited(general, loading(values))  # type: ignore[arg-type]
        assert {each.key for each in space.dimensions} == everything - missing
        check_space(space, loading(values))  # type: ignore[arg-type]


def test_a_space_without_any_effect_is_refused() -> None:
    with pytest.raises(RecipeError, match="no setting of it has an effect"):
        suited(load_space({"optimizer.adapter_learning_rate": LINEAR}), loading("demo"))
