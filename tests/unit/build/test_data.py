"""The data of a recipe: which sets and splits are read, and what a stage changes in its sets."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.build.data import load_split, load_training_sets, sets_of_stage
from palbert.data.tokenizer import TextTokenizer
from palbert.recipe.load import make_recipe


@pytest.fixture
def values() -> dict[str, Any]:
    return {
        "data": "samples",
        "tasks": {"sst": {"batch_size": 3}, "quora": {"extra": {"snli": {"max_length": 24}}}},
        "training": {"batch_size": 16},
    }


def test_every_training_set_has_the_name_task_and_settings_of_its_description(
    values: dict[str, Any], tokenizer: TextTokenizer
) -> None:
    recipe = make_recipe(values)
    sets = load_training_sets(recipe, tokenizer)
    assert {name: each.task for name, each in sets.items()} == {"sst": "sst", "quora": "quora", "quora+snli": "quora"}
    assert [each.name for each in sets.values()] == list(sets)
    assert {name: each.batch_size for name, each in sets.items()} == {"sst": 3, "quora": 16, "quora+snli": 16}
    assert sets["quora+snli"].max_length == 24 and sets["quora"].max_length == recipe.tasks["quora"].max_length
    assert all(each.rows.split == "train" and each.teacher_outputs is None for each in sets.values())


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_split_holds_the_rows_of_tasks_and_none_of_extra_sets(
    values: dict[str, Any], tokenizer: TextTokenizer, split: Any
) -> None:
    found = load_split(make_recipe(values), split, tokenizer)
    assert list(found) == ["sst", "quora"] and {dataset.split for dataset in found.values()} == {split}


def test_a_task_without_files_of_a_split_is_left_out(values: dict[str, Any], tokenizer: TextTokenizer) -> None:
    assert load_split(make_recipe(values), "test", tokenizer) == {}


def test_a_stage_trains_on_the_sets_of_its_tasks_with_its_own_batch_sizes(
    values: dict[str, Any], tokenizer: TextTokenizer
) -> None:
    values["phases"] = [{"tasks": ["quora"], "training": {"batch_size": 5}}, {"training": {"batch_size": 7}}]
    recipe = make_recipe(values)
    sets = load_training_sets(recipe, tokenizer)
    first, second = (sets_of_stage(stage, sets) for stage in recipe.stages)
    assert {name: each.batch_size for name, each in first.items()} == {"quora": 5, "quora+snli": 5}
    assert {name: each.batch_size for name, each in second.items()} == {"sst": 3, "quora": 7, "quora+snli": 7}
    assert first["quora"].rows is second["quora"].rows is sets["quora"].rows
