"""Fixed: the losses are unchanged."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from palbert.objectives import Goal
from palbert.objectives.balance import Fixed

Losses = Callable[..., dict[str, Tensor]]


def test_fixed_returns_the_losses_unchanged_and_has_no_state(
    goals: dict[str, Goal], whole: dict[str, float], losses_of: Losses
) -> None:
    balance, losses = Fixed(goals), losses_of(2.0, 0.5, 9.0)
    found = balance(losses, whole)
    balance.after_step(losses)
    assert all(found[name] is losses[name] for name in goals)
    assert (list(balance.parameters()), balance.state_dict(), balance.weights()) == ([], {}, {})
