"""Uncertainty: losses are weighted by a trained noise of each task."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from palbert.objectives import Goal
from palbert.objectives.balance import Uncertainty
from palbert.registry import LOSSES

Losses = Callable[..., dict[str, Tensor]]


def test_uncertainty_starts_with_weight_1_and_with_one_half_for_numbers(
    goals: dict[str, Goal], whole: dict[str, float], losses_of: Losses
) -> None:
    found = Uncertainty(goals)(losses_of(2.0, 0.5, 9.0), whole)
    assert {name: loss.item() for name, loss in found.items()} == {"keys": 2.0, "type": 0.5, "2nd-task": 4.5}


def test_uncertainty_of_numbers_is_the_likelihood_of_a_normal_distribution(
    goals: dict[str, Goal], whole: dict[str, float]
) -> None:
    balance = Uncertainty(goals)
    outputs, labels = torch.randn(8, 1), torch.randn(8)
    for log_variance in (-1.5, 0.0, 2.0):
        balance.log_variances[2].data.fill_(log_variance)
        loss = LOSSES["mse"](outputs, labels)
        expected = F.gaussian_nll_loss(outputs.squeeze(1), labels, torch.full((8,), log_variance).exp())
        torch.testing.assert_close(balance({"2nd-task": loss}, whole)["2nd-task"], expected)


def test_uncertainty_is_in_equilibrium_where_the_weighted_loss_is_one_half(
    goals: dict[str, Goal], whole: dict[str, float], losses_of: Losses
) -> None:
    balance, losses = Uncertainty(goals), losses_of(2.0, 0.5, 9.0)
    for parameter, rest in zip(balance.log_variances, (2 * 2.0, 2 * 0.5, 9.0), strict=True):
        parameter.data.fill_(float(np.log(rest)))
    torch.stack(list(balance(losses, whole).values())).sum().backward()  # type: ignore[no-untyped-call]
    for parameter in balance.log_variances:
        torch.testing.assert_close(parameter.grad, torch.tensor(0.0), atol=1e-6, rtol=0)
    for name, weight in balance.weights().items():
        assert float(weight * losses[name]) == pytest.approx(0.5)
