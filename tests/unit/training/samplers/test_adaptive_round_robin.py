"""Adaptive round robin: the largest set alone at first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.errors import PalbertError
from palbert.training.samplers import AdaptiveRoundRobin, RoundRobin

Make = Callable[..., Any]


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_adaptive_round_robin_starts_with_the_largest_set_alone(sampler: Make, rounds: int) -> None:
    chosen, plain = sampler(AdaptiveRoundRobin, steps=7, rounds=rounds), sampler(RoundRobin, steps=7)
    for epoch in (1, 2, 3, 4, 5):
        assert chosen.epoch(epoch) == ([("quora",)] * 7 if epoch <= rounds else plain.epoch(epoch))
    assert chosen.planned(1) == ({"sst": 0, "quora": 7, "sts": 0} if rounds else {"sst": 3, "quora": 2, "sts": 2})


@pytest.mark.parametrize(("cycle", "later"), [(False, 3 * 378), (True, 3 * 17688)])
def test_adaptive_round_robin_covers_the_whole_largest_set_first(sampler: Make, cycle: bool, later: int) -> None:
    chosen = sampler(AdaptiveRoundRobin, steps=None, rounds=2, epochs=3, cycle=cycle)
    assert [chosen.length(epoch) for epoch in (1, 2, 3)] == [17688, 17688, later]
    assert chosen.ends == (17688, 2 * 17688, 2 * 17688 + later)


@pytest.mark.parametrize(
    ("tasks", "first"),
    [
        ({"sst": "sst", "quora": "quora", "quora+snli": "quora"}, "quora"),
        ({"sst": "sst", "quora": "quora", "more": "sst"}, "quora"),
        ({"sst": "sst", "quora": "quora", "sst+quora": "sst+quora"}, "sst+quora"),  # names have no meaning
    ],
)
def test_adaptive_round_robin_never_starts_with_an_extra_set(sampler: Make, tasks: dict[str, str], first: str) -> None:
    rows = dict(zip(tasks, (10, 50, 500), strict=True))
    assert sampler(AdaptiveRoundRobin, rows=rows, tasks=tasks, steps=3).epoch(1) == [(first,)] * 3


def test_adaptive_round_robin_of_one_epoch_draws_only_the_largest_set(sampler: Make) -> None:
    assert sampler(AdaptiveRoundRobin, epochs=1, steps=3).epoch(1) == [("quora",)] * 3


@pytest.mark.parametrize(
    ("cls", "options", "reason"),
    [
        (AdaptiveRoundRobin, {"rounds": 1.5}, r"rounds: expected a whole number from 0, found 1\.5"),
        (AdaptiveRoundRobin, {"rounds": -1}, "rounds: .* found -1"),
    ],
)
def test_wrong_options_are_refused(sampler: Make, cls: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalbertError, match=reason):
        sampler(cls, **options)
