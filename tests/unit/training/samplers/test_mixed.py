"""Mixed: every set in every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palbert.training.samplers import Mixed

Make = Callable[..., Any]


def test_mixed_steps_hold_all_sets_and_end_with_the_largest(sampler: Make) -> None:
    chosen = sampler(Mixed, rows={"a": 10, "b": 33}, batch_size=4, steps=None)
    assert chosen.epoch(1) == [("a", "b")] * 9
    assert chosen.planned(1) == {"a": 9, "b": 9}
