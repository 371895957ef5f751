"""Settings: how rows change a recipe's values, and how smoke runs shrink them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from palbert.recipe.load import make_recipe
from palbert.reproduction.settings import merge, shrink


def test_merging_keeps_what_is_not_named_and_replaces_lists() -> None:
    values = {"a": {"b": 1, "c": [1, 2]}, "d": "text"}
    assert merge(values, {"a": {"c": [3]}, "d": {"e": 4}}) == {"a": {"b": 1, "c": [3]}, "d": {"e": 4}}
    assert values == {"a": {"b": 1, "c": [1, 2]}, "d": "text"}
    assert merge(values, {}) == values


def test_a_merged_value_shares_nothing_with_its_parts() -> None:
    values, changes = {"a": {"b": [1]}}, {"c": {"d": [2]}}
    result = merge(values, changes)
    result["a"]["b"].append(3)
    result["c"]["d"].append(3)
    assert values == {"a": {"b": [1]}} and changes == {"c": {"d": [2]}}


LONG: dict[str, Any] = {
    "data": "/course",
    "encoder": {"name": "bert-base-uncased", "dropout": 0.3},
    "tasks": {
        "sst": {"train": "mine.csv", "drop_overlap": ["dev"], "extra": {"cfimdb": {"train": "x.csv", "labels": "x4"}}},
        "cfimdb": {"max_length": 512},
    },
    "training": {"epochs": 9, "sampler": "round-robin"},
    "phases": [{"training": {"epochs": 5}}, {"training": {"epochs": 1}}, {}],
}


def test_a_smoke_recipe_is_short_runs_on_sample_rows_and_keeps_its_methods() -> None:
    before = copy.deepcopy(LONG)
    values = shrink(LONG)
    assert before == LONG
    recipe = make_recipe(values)  # refuses missing files
    sets = recipe.sets.values()
    assert all("samples" in source.path for spec in sets for source in (*spec.files.sources, *spec.task.dev))
    assert all(spec.max_length <= 64 for spec in sets)
    assert recipe.encoder.name == "minilm" and recipe.encoder.dropout == 0.3
    assert recipe.training.sampler.name == "round-robin"
    assert [stage.training.steps_per_epoch for stage in recipe.stages] == [4, 4, 4]


@pytest.mark.parametrize(("phase", "epochs"), [(0, 2), (1, 1), (2, 1)])
def test_phases_of_different_length_still_differ_in_a_smoke_run(phase: int, epochs: int) -> None:
    assert shrink(LONG)["phases"][phase]["training"]["epochs"] == epochs
