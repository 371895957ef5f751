"""Objective: what a training step minimises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from palbert.objectives.balance import Balance, Fixed


class Objective(nn.Module):
    """Called with the model and a batch, it returns one loss per set; its balance scales them.

    Its parameters are trained; they and its buffers are saved in `checkpoints/last`, not in the model.
    """

    def __init__(self, *, balance: Balance | None = None) -> None:
        super().__init__()
        self.balance = balance or Fixed({})

    def after_step(self, model: Any, losses: Mapping[str, Tensor]) -> None:
        """Update what follows the weights or the losses; called after each step, with its losses before balancing."""
        self.balance.after_step(losses)
