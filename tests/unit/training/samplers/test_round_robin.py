"""Round robin: the sets in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.errors import PalbertError
from palbert.training.samplers import RoundRobin

Make = Callable[..., Any]
ROWS = {"sst": 8544, "quora": 283003, "sts": 6040}


def test_round_robin_takes_the_sets_in_turn(sampler: Make) -> None:
    chosen = sampler(RoundRobin, steps=7)
    assert [task for (task,) in chosen.epoch(2)] == ["sst", "quora", "sts", "sst", "quora", "sts", "sst"]
    assert chosen.planned(2) == {"sst": 3, "quora": 2, "sts": 2}


def test_round_robin_ends_with_the_smallest_set(sampler: Make) -> None:
    chosen = sampler(RoundRobin, steps=None)
    smallest = -(-6040 // 16)
    assert chosen.steps == 3 * smallest
    assert chosen.planned(1) == dict.fromkeys(ROWS, smallest)


def test_round_robin_that_cycles_ends_with_the_largest_set(sampler: Make) -> None:
    chosen = sampler(RoundRobin, steps=None, cycle=True)
    largest = -(-283003 // 16)
    assert chosen.steps == 3 * largest
    assert chosen.planned(1) == dict.fromkeys(ROWS, largest)


@pytest.mark.parametrize(
    ("cls", "options", "reason"),
    [
        (RoundRobin, {"cycle": "yes"}, "cycle: expected true or false, found 'yes'"),
    ],
)
def test_wrong_options_are_refused(sampler: Make, cls: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalbertError, match=reason):
        sampler(cls, **options)
