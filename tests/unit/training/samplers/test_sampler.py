"""All samplers: pure functions of sizes, epoch and seed, with the number of steps they announce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.build import check_names
from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.registry import SAMPLERS

Make = Callable[..., Any]
ROWS = {"sst": 8544, "quora": 283003, "sts": 6040}


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("steps", [1, 7, 300])
def test_an_epoch_has_as_many_steps_as_requested_and_planned(sampler: Make, name: str, steps: int) -> None:
    chosen = sampler(SAMPLERS[name], steps=steps)
    for epoch in (1, 3, 5):
        plan = chosen.epoch(epoch)
        assert len(plan) == chosen.length(epoch) == steps
        assert sum(chosen.planned(epoch).values()) == pytest.approx(sum(map(len, plan)))
        assert {task for step in plan for task in step} <= set(ROWS)
    assert chosen.ends == tuple(steps * epoch for epoch in (1, 2, 3, 4, 5))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_samplers_choose_the_length_of_epochs_if_the_recipe_does_not(sampler: Make, name: str, epochs: int) -> None:
    chosen = sampler(SAMPLERS[name], rows={"a": 10, "b": 33, "c": 4}, batch_size=4, steps=None, epochs=epochs)
    lengths = [len(chosen.epoch(epoch)) for epoch in range(1, epochs + 1)]
    assert lengths == [chosen.length(epoch) for epoch in range(1, epochs + 1)]
    assert chosen.ends == tuple(sum(lengths[:end]) for end in range(1, epochs + 1))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("done", [1, 20, 49])
def test_a_new_sampler_continues_in_the_middle_of_an_epoch(sampler: Make, name: str, done: int) -> None:
    whole = list(sampler(SAMPLERS[name], steps=50).epoch(2))
    resumed = sampler(SAMPLERS[name], steps=50)
    assert whole[:done] + resumed.epoch(2)[done:] == whole


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_an_epoch_does_not_depend_on_earlier_ones(sampler: Make, name: str) -> None:
    used = sampler(SAMPLERS[name], steps=50)
    plans = {epoch: used.epoch(epoch) for epoch in (1, 2, 3, 4, 5)}
    for epoch in (4, 1, 3, 3):
        assert sampler(SAMPLERS[name], steps=50).epoch(epoch) == plans[epoch]
        assert used.epoch(epoch) == plans[epoch]


@pytest.mark.parametrize("name", sorted(SAMPLERS.keys() - {"mixed"}))
def test_only_mixed_steps_hold_several_sets(sampler: Make, name: str) -> None:
    assert {len(step) for step in sampler(SAMPLERS[name]).epoch(4)} == {1}


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_a_single_set_is_in_every_step(sampler: Make, name: str) -> None:
    for epochs in (1, 3):
        assert sampler(SAMPLERS[name], rows={"only": 5}, steps=4, epochs=epochs).epoch(1) == [("only",)] * 4
    whole = sampler(SAMPLERS[name], rows={"only": 5}, batch_size=2, steps=None, epochs=2)
    assert [whole.epoch(epoch) for epoch in (1, 2)] == [[("only",)] * 3] * 2


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"name": "annealed", "decai": 0.5}, r"training\.sampler: .*'decai'.*Did you mean 'decay'\?"),
        ({"name": "round-robin", "decay": 0.5}, r"training\.sampler: .*'decay'"),
        ({"name": "round-robin", "factors": {"sst": 0.1}}, r"training\.sampler: .*'factors'"),
        ({"name": "annealed", "factors": {"ssst": 1}}, r"training\.sampler: factors: .*'ssst'.* Did you mean 'sst'\?"),
        ({"name": "temperature", "temperature": 0}, r"training\.sampler: temperature: .* above 0, found 0\."),
        ("no_such_module:Class", "cannot be imported"),
        ("collections:UserDict", "is not a sampler"),
    ],
)
def test_an_option_or_class_that_does_not_exist_is_refused(choice: Any, reason: str) -> None:
    recipe = make_recipe({"data": "samples", "tasks": ["sst"], "training": {"sampler": choice}})
    with pytest.raises(RecipeError, match=reason):
        check_names(recipe)
