"""Policies for numbers that are not finite: what a skipped step leaves as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

nan = float("nan")
Start = Callable[..., Any]


def state(trainer: Any) -> list[torch.Tensor]:
    """Copy everything that a step changes."""
    optimizer = [value for each in trainer.optimizer.state.values() for value in each.values()]
    kept = [*trainer.model.state_dict().values(), *optimizer, *trainer.objective.state_dict().values()]
    return [value.detach().clone() for value in [*kept, *trainer.average.state().values()]]


@pytest.mark.parametrize("average", ["none", "ema", {"name": "swa", "start": 0.0}])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_skipped_step_changes_nothing(start: Start, average: Any, accumulation: int) -> None:
    training = {"non_finite": "skip", "average": average, "accumulation": accumulation, "balance": "normalised"}
    trainer = start(training=training).trainer
    trainer.step(trainer.feed(("sts",), {"sts": 0}))
    before = state(trainer)
    broken = trainer.objective.register_forward_hook(lambda *call: {name: loss * nan for name, loss in call[2].items()})
    trainer.step(trainer.feed(("sts",), {"sts": 0}))
    broken.remove()
    assert all(torch.equal(a, b) for a, b in zip(before, state(trainer), strict=True))
    weights = [value.detach().clone() for value in trainer.parameters]
    trainer.step(trainer.feed(("sts",), {"sts": 0}))
    assert not all(torch.equal(a, b) for a, b in zip(weights, trainer.parameters, strict=True))


def test_both_policies_train_alike_while_all_numbers_are_finite(start: Start) -> None:
    found = []
    for policy in ("stop", "skip"):
        trainer = start(policy, training={"non_finite": policy, "average": "ema"}).trainer
        for place in (0, 8):
            trainer.step(trainer.feed(("sts",), {"sts": place}))
        found.append(state(trainer))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
