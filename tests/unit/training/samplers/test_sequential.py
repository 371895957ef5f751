"""Sequential: all of one set, then all of the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.training.samplers import Sequential, Settings

Make = Callable[..., Any]
ROWS = {"sst": 8544, "quora": 283003, "sts": 6040}


def test_sequential_takes_all_of_one_set_and_then_all_of_the_next(sampler: Make) -> None:
    chosen = sampler(Sequential, rows={"b": 10, "a": 33, "c": 4}, batch_size=4, steps=None)
    assert [task for (task,) in chosen.epoch(3)] == ["b"] * 3 + ["a"] * 9 + ["c"]
    assert chosen.planned(3) == {"b": 3, "a": 9, "c": 1}


@pytest.mark.parametrize("steps", [1, 2, 10, 299, 1800])
def test_sequential_divides_the_steps_in_proportion_to_batches(sampler: Make, steps: int) -> None:
    chosen = sampler(Sequential, steps=steps)
    total = sum(chosen.batches.values())
    order = [task for (task,) in chosen.epoch(1)]
    assert order == sorted(order, key=list(ROWS).index)
    for task, count in chosen.planned(1).items():
        assert abs(count - steps * chosen.batches[task] / total) <= 1


def test_sequential_counts_batches_rather_than_rows() -> None:
    sizes = {"long": 8, "short": 32}
    rows = {"long": 80, "short": 320}
    chosen = Sequential(
        Settings(rows=rows, batch_sizes=sizes, tasks={name: name for name in rows}, epochs=1, steps=10, seed=0)
    )
    assert chosen.planned(1) == {"long": 5, "short": 5}
