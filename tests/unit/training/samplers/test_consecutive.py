"""Consecutive: the epochs of several samplers, one after another."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.training.samplers import Consecutive, Deterministic, Mixed, Plan, RoundRobin, Sequential

Make = Callable[..., Any]


@pytest.fixture
def parts(sampler: Make) -> list[Any]:
    """Make samplers of two, one and three epochs over different sets."""
    return [
        sampler(RoundRobin, rows={"a": 40, "b": 50}, epochs=2, steps=5),
        sampler(Mixed, rows={"b": 50, "c": 60}, epochs=1, steps=None),
        sampler(Sequential, rows={"a": 40}, epochs=3, steps=2),
    ]


def test_epochs_are_those_of_the_samplers_in_their_order(parts: list[Any]) -> None:
    whole = Consecutive(parts)
    expected = [(part, epoch) for part in parts for epoch in range(1, part.epochs + 1)]
    assert whole.epochs == len(expected) == 6
    for epoch, (part, own) in enumerate(expected, 1):
        assert whole.epoch(epoch) == part.epoch(own)
        assert whole.length(epoch) == part.length(own) == len(whole.epoch(epoch))
    assert whole.ends == (5, 10, 14, 16, 18, 20)


def test_spans_are_the_epochs_of_each_sampler_in_the_run(parts: list[Any]) -> None:
    assert Consecutive(parts).spans == [range(1, 3), range(3, 4), range(4, 7)]


def test_sets_of_other_phases_are_planned_zero_times(parts: list[Any]) -> None:
    whole = Consecutive(parts)
    assert whole.rows == {"a": 40, "b": 50, "c": 60}
    assert whole.planned(1) == {"a": 3, "b": 2, "c": 0}
    assert whole.planned(3) == {"a": 0, "b": 4, "c": 4}
    assert whole.planned(6) == {"a": 2, "b": 0, "c": 0}


def test_a_single_sampler_is_unchanged(parts: list[Any]) -> None:
    first, *_ = parts
    whole = Consecutive([first])
    assert [whole.epoch(epoch) for epoch in (1, 2)] == [first.epoch(epoch) for epoch in (1, 2)]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([("a",)], r"Own.epoch(1) gives 1 steps; expected 2, as length(1) says."),
        ([("a",), ("c",)], r"Own.epoch(1) gives the step ('c',); expected a tuple with some of: a, b."),
        (["a", "b"], r"Own.epoch(1) gives the step 'a'; expected a tuple with some of: a, b."),
        ([("a",), ()], r"Own.epoch(1) gives the step (); expected a tuple with some of: a, b."),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(plan: Any, message: str, sampler: Make) -> None:
    class Own(Deterministic):
        def epoch(self, epoch: int) -> Plan:
            return plan  # type: ignore[no-any-return]

    with pytest.raises(RecipeError, match=f"^{re.escape(message)}$"):
        Consecutive([sampler(Own, rows={"a": 40, "b": 50}, epochs=1, steps=2)]).epoch(1)
