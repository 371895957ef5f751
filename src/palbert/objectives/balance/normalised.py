"""Normalised: every loss divided by its own running mean."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palbert.objectives import Goal
from palbert.objectives.balance.balance import Balance
from palbert.options import check_number

LEAST = 1e-8
"""A running mean below this divides nothing: the loss is there already, or is no loss."""


class Normalised(Balance):
    """L / m, where m is the running mean of L: the loss of every task is about 1, whatever its scale.

    m ← β m + (1 − β) L, divided by 1 − βᵗ after t steps of the task, as in Adam (arXiv:1412.6980, section 3), so that
    the zero it starts from does not count. It moves after each step that has the task, and is a constant for the
    gradient. In a task's first step there is no mean yet: its loss counts as it is.

    Args:
        goals: The losses, by name.
        beta: β; the mean is over about 1 / (1 − β) steps of the task.
    """

    def __init__(self, goals: Mapping[str, Goal], *, beta: float = 0.99) -> None:
        super().__init__(goals)
        self.beta = check_number("beta", beta, least=0, below=1)
        self.places = {name: number for number, name in enumerate(goals)}
        self.register_buffer("means", torch.zeros(len(self.places)))
        self.register_buffer("masses", torch.zeros(len(self.places)))  # 1 − βᵗ: the running mean of ones
        self.means: Tensor
        self.masses: Tensor

    def forward(self, losses: Mapping[str, Tensor], shares: Mapping[str, float]) -> dict[str, Tensor]:
        """Return the losses over their means."""
        weights = self.weights()
        return {name: weights[name] * loss for name, loss in losses.items()}

    def after_step(self, losses: Mapping[str, Tensor]) -> None:
        """Move the means of the step's losses."""
        for name, loss in losses.items():
            place = self.places[name]
            self.means[place] += (1 - self.beta) * (loss - self.means[place])
            self.masses[place] += (1 - self.beta) * (1 - self.masses[place])

    def weights(self) -> dict[str, Tensor]:
        """Return one over each mean; 1 where there is none yet."""
        factors = torch.where(self.means > LEAST, self.masses / self.means, 1.0)
        return dict(zip(self.places, factors.unbind(), strict=True))
