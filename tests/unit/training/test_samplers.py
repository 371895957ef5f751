"""Samplers: the formulas, the draws, and that nothing but sizes, epoch and seed matters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scipy.stats import chisquare

from palbert.build import check_names
from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.training.samplers import SAMPLERS, Annealed, Proportional, RoundRobin, Sampler

ROWS = {"sst": 8544, "quora": 283003, "sts": 6040}


def sampler(cls: Any, **changes: Any) -> Any:
    settings: dict[str, Any] = {"rows": ROWS, "batch_size": 16, "epochs": 5, "steps": 1800, "seed": 0, **changes}
    batch_sizes = dict.fromkeys(settings["rows"], settings.pop("batch_size"))
    return cls(settings.pop("rows"), batch_sizes=batch_sizes, **settings)


def by_formula(alpha: float) -> dict[str, float]:
    weights = {task: rows**alpha for task, rows in ROWS.items()}
    return {task: weight / sum(weights.values()) for task, weight in weights.items()}


@pytest.mark.parametrize(("epoch", "alpha"), [(1, 1.0), (2, 0.8), (3, 0.6), (4, 0.4), (5, 0.2)])
def test_annealed_probabilities_follow_the_formula(epoch: int, alpha: float) -> None:
    assert sampler(Annealed).probabilities(epoch) == pytest.approx(by_formula(alpha), rel=1e-9)


def test_annealed_sampler_of_one_epoch_draws_by_size() -> None:
    assert sampler(Annealed, epochs=1).probabilities(1) == pytest.approx(by_formula(1.0))


@pytest.mark.parametrize("epoch", [1, 3, 5])
def test_annealed_sampler_without_decay_is_proportional(epoch: int) -> None:
    assert sampler(Annealed, decay=0.0).epoch(epoch) == sampler(Proportional).epoch(epoch)


def test_annealed_sampler_with_full_decay_draws_evenly_in_the_last_epoch() -> None:
    assert sampler(Annealed, decay=1.0).probabilities(5) == pytest.approx(by_formula(0.0))


@pytest.mark.parametrize("epoch", [1, 2, 5])
def test_proportional_sampler_draws_by_size_in_every_epoch(epoch: int) -> None:
    assert sampler(Proportional).probabilities(epoch) == pytest.approx(by_formula(1.0))


@pytest.mark.parametrize("cls", [Annealed, Proportional])
@pytest.mark.parametrize("epoch", [1, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_drawn_tasks_are_spread_as_planned(cls: type[Sampler], epoch: int, seed: int) -> None:
    chosen = sampler(cls, steps=20_000, seed=seed)
    counts, planned = Counter(task for (task,) in chosen.epoch(epoch)), chosen.planned(epoch)
    # A sound sampler falls below this once in a thousand times; the seeds are fixed.
    assert chisquare([counts[task] for task in ROWS], [planned[task] for task in ROWS]).pvalue > 1e-3


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("steps", [1, 7, 300])
def test_an_epoch_has_as_many_steps_as_asked_and_planned(name: str, steps: int) -> None:
    chosen = sampler(SAMPLERS[name], steps=steps)
    for epoch in (1, 3, 5):
        assert len(chosen.epoch(epoch)) == steps
        assert sum(chosen.planned(epoch).values()) == pytest.approx(steps)
        assert {task for step in chosen.epoch(epoch) for task in step} <= set(ROWS)


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_an_epoch_does_not_depend_on_those_before(name: str) -> None:
    used = sampler(SAMPLERS[name], steps=50)
    plans = {epoch: used.epoch(epoch) for epoch in (1, 2, 3, 4, 5)}
    for epoch in (4, 1, 3, 3):
        assert sampler(SAMPLERS[name], steps=50).epoch(epoch) == plans[epoch]
        assert used.epoch(epoch) == plans[epoch]


@pytest.mark.parametrize("cls", [Annealed, Proportional])
def test_seeds_and_epochs_draw_differently(cls: type[Sampler]) -> None:
    even = {"a": 10, "b": 10}
    chosen = sampler(cls, rows=even, steps=60)
    assert chosen.epoch(1) != chosen.epoch(2)
    assert chosen.epoch(1) != sampler(cls, rows=even, steps=60, seed=1).epoch(1)


def test_round_robin_takes_the_tasks_in_turn() -> None:
    chosen = sampler(RoundRobin, steps=7)
    assert [task for (task,) in chosen.epoch(2)] == ["sst", "quora", "sts", "sst", "quora", "sts", "sst"]
    assert chosen.planned(2) == {"sst": 3, "quora": 2, "sts": 2}


def test_round_robin_ends_with_the_smallest_set() -> None:
    chosen = sampler(RoundRobin, steps=None)
    smallest = -(-6040 // 16)
    assert chosen.steps == 3 * smallest
    assert chosen.planned(1) == dict.fromkeys(ROWS, smallest)


@pytest.mark.parametrize("cls", [Annealed, Proportional])
def test_one_pass_of_a_drawing_sampler_is_one_batch_for_every_batch(cls: type[Sampler]) -> None:
    assert sampler(cls, rows={"a": 10, "b": 33}, batch_size=4, steps=None).steps == 3 + 9


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_one_task_is_always_drawn(name: str) -> None:
    assert sampler(SAMPLERS[name], rows={"only": 5}, steps=4).epoch(1) == [("only",)] * 4


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"name": "annealed", "decai": 0.5}, r"training\.sampler: .*'decai'.*Did you mean 'decay'\?"),
        ({"name": "round-robin", "decay": 0.5}, r"training\.sampler: .*'decay'"),
        ("no_such_module:Class", "cannot be imported"),
        ("collections:UserDict", "is no sampler"),
    ],
)
def test_an_option_or_class_that_does_not_exist_is_refused(choice: Any, reason: str) -> None:
    recipe = make_recipe({"data": "samples", "tasks": ["sst"], "training": {"sampler": choice}})
    with pytest.raises(RecipeError, match=reason):
        check_names(recipe)
