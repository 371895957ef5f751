"""Objective: the balance sees the losses of each step, and the default one does not change them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from palbert.objectives.balance import Balance, Fixed
from palbert.objectives.objective import Objective


class Remembering(Balance):
    """Keep the losses of the last step."""

    def forward(self, losses: Mapping[str, Tensor], shares: Mapping[str, float]) -> dict[str, Tensor]:
        return dict(losses)

    def after_step(self, losses: Mapping[str, Tensor]) -> None:
        self.seen = dict(losses)


def test_without_a_balance_losses_are_not_scaled() -> None:
    objective = Objective()
    losses = {"sst": torch.tensor(2.0)}
    assert isinstance(objective.balance, Fixed)
    assert objective.balance(losses, {"sst": 1.0}) == losses
    assert list(objective.parameters()) == []


def test_the_balance_sees_the_losses_of_every_step() -> None:
    balance = Remembering({})
    losses = {"sst": torch.tensor(2.0)}
    Objective(balance=balance).after_step(nn.Identity(), losses)
    assert balance.seen == losses


def test_the_state_of_the_balance_is_that_of_the_objective() -> None:
    balance = Remembering({})
    balance.register_buffer("mean", torch.ones(2))
    assert list(Objective(balance=balance).state_dict()) == ["balance.mean"]
