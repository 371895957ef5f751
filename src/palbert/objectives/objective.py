"""Objective: what a training step makes small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from palbert.objectives.balance import Balance, Fixed


class Objective(nn.Module):
    """Called with the model and a batch, it returns a loss for each set; its balance scales them.

    What it has as parameters is trained, and they and its buffers are kept in `checkpoints/last`, not in the model.
    """

    def __init__(self, *, balance: Balance | None = None) -> None:
        super().__init__()
        self.balance = balance or Fixed({})

    def after_step(self, model: Any, losses: Mapping[str, Tensor]) -> None:
        """Follow the weights, and the losses of the step before balancing, once after each step of the optimizer."""
        self.balance.after_step(losses)
