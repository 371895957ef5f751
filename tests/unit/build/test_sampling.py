"""The sampler of a recipe: what it knows about the sets, whose factors count, and the sizes of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from palbert.build.data import load_training_sets
from palbert.build.sampling import choose_buckets, make_buckets, make_sampler, takes_factors, tokens_per_step
from palbert.data.tokenizer import TextTokenizer
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.registry import SAMPLERS
from palbert.tasks.choices import Component


def recipe(sampler: Any = "proportional", **extra: Any) -> Recipe:
    tasks = {"sst": {"batch_size": 2}, "quora": {"extra": {"snli": {"batch_size": 5, **extra}}}}
    training = {"batch_size": 10, "sampler": sampler, "epochs": 1, "steps_per_epoch": 100}
    return make_recipe({"data": "samples", "tasks": tasks, "training": training})


ROWS = {"sst": 100, "quora": 100, "quora+snli": 100}


def test_a_sampler_plans_by_the_batch_sizes_of_the_sets() -> None:
    assert make_sampler(recipe("mixed"), rows=ROWS).batches == {"sst": 50, "quora": 10, "quora+snli": 20}


def test_the_largest_task_is_found_by_the_tasks_of_the_sets() -> None:
    found = make_sampler(recipe("adaptive-round-robin"), rows={"sst": 10, "quora": 20, "quora+snli": 900})
    assert set(found.epoch(1)) == {("quora",)}


@pytest.mark.parametrize(
    ("own", "expected"), [({}, 0.1), ({"quora+snli": 0.5}, 0.5), ({"sst": 3.0}, 0.1)], ids=["none", "same", "other"]
)
def test_a_samplers_own_factors_take_precedence_over_those_of_the_sets(own: dict[str, float], expected: float) -> None:
    sampler = {"name": "temperature", "temperature": float("inf"), "factors": own}
    planned = make_sampler(recipe(sampler, factor=0.1), rows=ROWS).planned(1)
    assert planned["quora+snli"] / planned["quora"] == pytest.approx(expected)
    assert planned["sst"] / planned["quora"] == pytest.approx(own.get("sst", 1.0))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_factors_reach_the_samplers_that_take_them_and_no_others(name: str) -> None:
    with_factor, without = (make_sampler(recipe(name, factor=factor), rows=ROWS) for factor in (0.5, 1.0))
    assert (with_factor.planned(1) != without.planned(1)) == takes_factors(Component(name=name))


def test_buckets_hold_the_longest_sequence_of_their_set(tokenizer: TextTokenizer) -> None:
    sets = load_training_sets(recipe(), tokenizer)
    buckets = choose_buckets(sets, tokenizer.template)
    assert buckets.keys() == sets.keys()
    for name, each in sets.items():
        assert buckets[name].longest == each.sequence_lengths(tokenizer.template).max()


def test_batches_are_not_padded_on_the_cpu(tokenizer: TextTokenizer) -> None:
    assert make_buckets(load_training_sets(recipe(), tokenizer), tokenizer.template, torch.device("cpu")) is None


def test_the_tokens_of_a_step_are_those_of_a_batch_of_every_set(tokenizer: TextTokenizer) -> None:
    sets = load_training_sets(recipe(), tokenizer)
    means = {name: np.sum(each.sequence_lengths(tokenizer.template)) / len(each) for name, each in sets.items()}
    expected = 2 * means["sst"] + 10 * means["quora"] + 5 * means["quora+snli"]
    assert tokens_per_step(sets, tokenizer.template) == pytest.approx(expected)
