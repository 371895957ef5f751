"""Normalised: every loss is divided by its own running mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from palbert.objectives import Goal
from palbert.objectives.balance import Normalised

Losses = Callable[..., dict[str, Tensor]]


def test_normalised_divides_by_the_weighted_mean_of_the_earlier_losses(
    goals: dict[str, Goal], whole: dict[str, float]
) -> None:
    balance, seen = Normalised(goals, beta=0.8), [3.0, 5.0, 4.0, 0.5, 7.0]
    for step, loss in enumerate(seen):
        expected = np.average(seen[:step], weights=0.8 ** np.arange(step)[::-1]) if step else 1.0
        given = {"keys": torch.tensor(loss)}
        assert float(balance(given, whole)["keys"]) == pytest.approx(loss / expected, rel=1e-5)
        balance.after_step(given)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_normalised_losses_are_1_at_any_scale(
    goals: dict[str, Goal], whole: dict[str, float], losses_of: Losses, scale: float
) -> None:
    balance, losses = Normalised(goals), losses_of(2.0 * scale, 0.5 * scale, 9.0 * scale)
    balance.after_step(losses)
    for loss in balance(losses, whole).values():
        assert float(loss) == pytest.approx(1.0, rel=1e-5)


def test_normalised_takes_no_gradient_through_its_mean(goals: dict[str, Goal], whole: dict[str, float]) -> None:
    balance, weight = Normalised(goals), torch.tensor(2.0, requires_grad=True)
    balance.after_step({"keys": torch.tensor(4.0)})
    balance({"keys": weight**2}, whole)["keys"].backward()
    assert float(weight.grad) == pytest.approx(2 * 2.0 / 4.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", [0.0, 1e-40, -1.0, float("nan")])
def test_normalised_does_not_scale_a_loss_by_an_unusable_mean(
    goals: dict[str, Goal], whole: dict[str, float], losses_of: Losses, loss: float
) -> None:
    balance, losses = Normalised(goals), losses_of(loss, 0.5)
    balance.after_step(losses)
    torch.testing.assert_close(balance(losses, whole)["keys"], losses["keys"], equal_nan=True)
    assert float(balance(losses, whole)["type"]) == pytest.approx(1.0)
