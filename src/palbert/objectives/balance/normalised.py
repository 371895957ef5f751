"""Normalised: every loss divided by its own running mean."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palbert.objectives import Goal
from palbert.objectives.balance.balance import Balance
from palbert.options import check_number

LEAST = 1e-8
"""A loss with a running mean below this is not divided: it has reached 0, or has not been seen yet."""


class Normalised(Balance):
    """L / m, where m is the running mean of L: the loss of every task is about 1, whatever its scale.

    m ← β m + (1 − β) L, divided by 1 − βᵗ after t steps of the task, as in Adam (arXiv:1412.6980, section 3), to
    correct for its start at zero. It is updated after each step that has the task, and is a constant for the
    gradient. In a task's first step there is no mean yet: its loss is not scaled.

    Args:
        goals: What is known about each loss, by name.
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
        """Return the losses divided by their means."""
        weights = self.weights()
        return {name: weights[name] * loss for name, loss in losses.items()}

    def after_step(self, losses: Mapping[str, Tensor]) -> None:
        """Update the means of the step's losses."""
        for name, loss in losses.items():
            place = self.places[name]
            self.means[place] += (1 - self.beta) * (loss - self.means[place])
            self.masses[place] += (1 - self.beta) * (1 - self.masses[place])

    def weights(self) -> dict[str, Tensor]:
        """Return the inverse of each mean; 1 where there is none yet."""
        factors = torch.where(self.means > LEAST, self.masses / self.means, 1.0)
        return dict(zip(self.places, factors.unbind(), strict=True))
