"""Samplers: the formulas, the draws, and that nothing but sizes, epoch and seed matters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scipy.stats import chisquare

from palbert.build import check_names
from palbert.errors import PalbertError, RecipeError
from palbert.recipe.load import make_recipe
from palbert.registry import SAMPLERS
from palbert.training.samplers import (
    AdaptiveRoundRobin,
    Annealed,
    Drawn,
    Mixed,
    Proportional,
    RoundRobin,
    Sampler,
    Sequential,
    Settings,
    SquareRoot,
    Temperature,
)

ROWS = {"sst": 8544, "quora": 283003, "sts": 6040}
SNLI = {**ROWS, "snli": 366374}
DRAWN = [cls for cls in SAMPLERS.values() if issubclass(cls, Drawn)]
ONE_A_STEP = sorted(SAMPLERS.keys() - {"mixed"})


def sampler(cls: Any, **changes: Any) -> Any:
    told: dict[str, Any] = {"rows": ROWS, "epochs": 5, "steps": 1800, "seed": 0}
    told = {key: changes.pop(key, value) for key, value in told.items()}
    sizes = dict.fromkeys(told["rows"], changes.pop("batch_size", 16))
    tasks = changes.pop("tasks", {name: name for name in told["rows"]})
    return cls(Settings(batch_sizes=sizes, tasks=tasks, **told), **changes)


def by_formula(alpha: float, **factors: float) -> dict[str, float]:
    weights = {task: factors.get(task, 1) * rows**alpha for task, rows in (SNLI if factors else ROWS).items()}
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


@pytest.mark.parametrize("epoch", [1, 2, 5])
def test_square_root_probabilities_follow_the_formula(epoch: int) -> None:
    assert sampler(SquareRoot).probabilities(epoch) == pytest.approx(by_formula(0.5))


@pytest.mark.parametrize(("temperature", "alpha"), [(1, 1.0), (2.0, 0.5), (5.0, 0.2), (float("inf"), 0.0)])
def test_temperature_probabilities_follow_the_formula(temperature: float, alpha: float) -> None:
    chosen = sampler(Temperature, temperature=temperature)
    assert chosen.probabilities(3) == pytest.approx(by_formula(alpha))


def test_temperature_2_is_the_square_root() -> None:
    assert sampler(Temperature).epoch(2) == sampler(SquareRoot).epoch(2)


@pytest.mark.parametrize("cls", DRAWN)
def test_factors_multiply_the_weights(cls: type[Drawn]) -> None:
    chosen = sampler(cls, rows=SNLI, factors={"snli": 0.1})
    for epoch in (1, 4):
        expected = by_formula(chosen.exponent(epoch), snli=0.1)
        assert chosen.probabilities(epoch) == pytest.approx(expected)


@pytest.mark.parametrize("cls", DRAWN)
def test_a_common_factor_changes_nothing(cls: type[Drawn]) -> None:
    plain, factored = sampler(cls), sampler(cls, factors=dict.fromkeys(ROWS, 3))
    assert factored.probabilities(2) == pytest.approx(plain.probabilities(2))
    assert sampler(cls, factors={}).epoch(2) == plain.epoch(2)


@pytest.mark.parametrize("cls", DRAWN)
def test_a_task_with_factor_0_is_never_drawn(cls: type[Drawn]) -> None:
    chosen = sampler(cls, factors={"quora": 0})
    assert chosen.planned(1)["quora"] == 0.0
    assert {task for (task,) in chosen.epoch(1)} == {"sst", "sts"}


@pytest.mark.parametrize("cls", DRAWN)
@pytest.mark.parametrize("epoch", [1, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("factors", [None, {"quora": 0.1, "sts": 2.0}])
def test_drawn_tasks_are_spread_as_planned(cls: type[Sampler], epoch: int, seed: int, factors: Any) -> None:
    chosen = sampler(cls, steps=20_000, seed=seed, factors=factors)
    counts, planned = Counter(task for (task,) in chosen.epoch(epoch)), chosen.planned(epoch)
    # A sound sampler falls below this once in a thousand times; the seeds are fixed.
    assert chisquare([counts[task] for task in ROWS], [planned[task] for task in ROWS]).pvalue > 1e-3


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("steps", [1, 7, 300])
def test_an_epoch_has_as_many_steps_as_asked_and_planned(name: str, steps: int) -> None:
    chosen = sampler(SAMPLERS[name], steps=steps)
    for epoch in (1, 3, 5):
        plan = chosen.epoch(epoch)
        assert len(plan) == chosen.length(epoch) == steps
        assert sum(chosen.planned(epoch).values()) == pytest.approx(sum(map(len, plan)))
        assert {task for step in plan for task in step} <= set(ROWS)
    assert chosen.ends == tuple(steps * epoch for epoch in (1, 2, 3, 4, 5))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_epochs_are_as_long_as_they_say_when_the_recipe_does_not(name: str, epochs: int) -> None:
    chosen = sampler(SAMPLERS[name], rows={"a": 10, "b": 33, "c": 4}, batch_size=4, steps=None, epochs=epochs)
    lengths = [len(chosen.epoch(epoch)) for epoch in range(1, epochs + 1)]
    assert lengths == [chosen.length(epoch) for epoch in range(1, epochs + 1)]
    assert chosen.ends == tuple(sum(lengths[:end]) for end in range(1, epochs + 1))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@pytest.mark.parametrize("done", [1, 20, 49])
def test_a_sampler_made_anew_goes_on_in_the_middle_of_an_epoch(name: str, done: int) -> None:
    whole = list(sampler(SAMPLERS[name], steps=50).epoch(2))
    resumed = sampler(SAMPLERS[name], steps=50)
    assert whole[:done] + resumed.epoch(2)[done:] == whole


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_an_epoch_does_not_depend_on_those_before(name: str) -> None:
    used = sampler(SAMPLERS[name], steps=50)
    plans = {epoch: used.epoch(epoch) for epoch in (1, 2, 3, 4, 5)}
    for epoch in (4, 1, 3, 3):
        assert sampler(SAMPLERS[name], steps=50).epoch(epoch) == plans[epoch]
        assert used.epoch(epoch) == plans[epoch]


@pytest.mark.parametrize("cls", DRAWN)
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


def test_round_robin_that_cycles_ends_with_the_largest_set() -> None:
    chosen = sampler(RoundRobin, steps=None, cycle=True)
    largest = -(-283003 // 16)
    assert chosen.steps == 3 * largest
    assert chosen.planned(1) == dict.fromkeys(ROWS, largest)


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_adaptive_round_robin_stays_with_the_largest_set_at_first(rounds: int) -> None:
    chosen, plain = sampler(AdaptiveRoundRobin, steps=7, rounds=rounds), sampler(RoundRobin, steps=7)
    for epoch in (1, 2, 3, 4, 5):
        assert chosen.epoch(epoch) == ([("quora",)] * 7 if epoch <= rounds else plain.epoch(epoch))
    assert chosen.planned(1) == ({"sst": 0, "quora": 7, "sts": 0} if rounds else {"sst": 3, "quora": 2, "sts": 2})


@pytest.mark.parametrize(("cycle", "later"), [(False, 3 * 378), (True, 3 * 17688)])
def test_adaptive_round_robin_goes_through_the_whole_largest_set_first(cycle: bool, later: int) -> None:
    chosen = sampler(AdaptiveRoundRobin, steps=None, rounds=2, epochs=3, cycle=cycle)
    assert [chosen.length(epoch) for epoch in (1, 2, 3)] == [17688, 17688, later]
    assert chosen.ends == (17688, 2 * 17688, 2 * 17688 + later)


@pytest.mark.parametrize(
    ("tasks", "first"),
    [
        ({"sst": "sst", "quora": "quora", "quora+snli": "quora"}, "quora"),
        ({"sst": "sst", "quora": "quora", "more": "sst"}, "quora"),
        ({"sst": "sst", "quora": "quora", "sst+quora": "sst+quora"}, "sst+quora"),  # nobody reads a name
    ],
)
def test_only_a_tasks_own_set_goes_first(tasks: dict[str, str], first: str) -> None:
    rows = dict(zip(tasks, (10, 50, 500), strict=True))
    assert sampler(AdaptiveRoundRobin, rows=rows, tasks=tasks, steps=3).epoch(1) == [(first,)] * 3


def test_adaptive_round_robin_of_one_epoch_is_the_largest_set_alone() -> None:
    assert sampler(AdaptiveRoundRobin, epochs=1, steps=3).epoch(1) == [("quora",)] * 3


def test_sequential_takes_all_of_one_task_and_then_all_of_the_next() -> None:
    chosen = sampler(Sequential, rows={"b": 10, "a": 33, "c": 4}, batch_size=4, steps=None)
    assert [task for (task,) in chosen.epoch(3)] == ["b"] * 3 + ["a"] * 9 + ["c"]
    assert chosen.planned(3) == {"b": 3, "a": 9, "c": 1}


@pytest.mark.parametrize("steps", [1, 2, 10, 299, 1800])
def test_sequential_shares_the_steps_out_by_batches(steps: int) -> None:
    chosen = sampler(Sequential, steps=steps)
    total = sum(chosen.batches.values())
    order = [task for (task,) in chosen.epoch(1)]
    assert order == sorted(order, key=list(ROWS).index)
    for task, count in chosen.planned(1).items():
        assert abs(count - steps * chosen.batches[task] / total) <= 1


def test_sequential_counts_batches_and_not_rows() -> None:
    sizes = {"long": 8, "short": 32}
    rows = {"long": 80, "short": 320}
    chosen = Sequential(
        Settings(rows=rows, batch_sizes=sizes, tasks={name: name for name in rows}, epochs=1, steps=10, seed=0)
    )
    assert chosen.planned(1) == {"long": 5, "short": 5}


def test_mixed_steps_hold_all_tasks_and_end_with_the_largest_set() -> None:
    chosen = sampler(Mixed, rows={"a": 10, "b": 33}, batch_size=4, steps=None)
    assert chosen.epoch(1) == [("a", "b")] * 9
    assert chosen.planned(1) == {"a": 9, "b": 9}


@pytest.mark.parametrize("name", ONE_A_STEP)
def test_all_other_steps_hold_one_task(name: str) -> None:
    assert {len(step) for step in sampler(SAMPLERS[name]).epoch(4)} == {1}


@pytest.mark.parametrize("cls", DRAWN)
def test_one_pass_of_a_drawing_sampler_is_one_batch_for_every_batch(cls: type[Sampler]) -> None:
    assert sampler(cls, rows={"a": 10, "b": 33}, batch_size=4, steps=None).steps == 3 + 9


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_one_task_is_always_drawn(name: str) -> None:
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


@pytest.mark.parametrize(
    ("cls", "options", "reason"),
    [
        (Proportional, {"factors": {"snli": 0.1}}, r"factors: unknown set 'snli'. Known: quora, sst, sts\."),
        (Annealed, {"factors": {"sst": -1}}, r"factors\.sst: expected a number from 0, found -1\."),
        (SquareRoot, {"factors": {"sst": "half"}}, r"factors\.sst: .* found 'half'"),
        (Proportional, {"factors": {"sst": float("inf")}}, r"factors\.sst: .* found inf"),
        (Proportional, {"factors": dict.fromkeys(ROWS, 0)}, "at least one needs a factor above 0"),
        (Proportional, {"factors": 0.1}, r"factors: expected a number for each set, as in .*, found 0\.1"),
        (Annealed, {"decay": "much"}, "decay: expected a number, found 'much'"),
        (Temperature, {"temperature": -1.0}, r"temperature: expected a number above 0, found -1\.0"),
        (RoundRobin, {"cycle": "yes"}, "cycle: expected true or false, found 'yes'"),
        (AdaptiveRoundRobin, {"rounds": 1.5}, r"rounds: expected a whole number from 0, found 1\.5"),
        (AdaptiveRoundRobin, {"rounds": -1}, "rounds: .* found -1"),
    ],
)
def test_an_option_of_no_use_is_refused(cls: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalbertError, match=reason):
        sampler(cls, **options)
