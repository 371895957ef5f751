"""Sum: the gradient of the weighted sum of losses, L = Σ λ_i L_i."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class Sum:
    """Add the tasks' gradients, each with its weight."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Add the gradients of one batch."""
        torch.stack([self.weights[task] * loss for task, loss in losses.items()]).sum().backward()  # type: ignore[no-untyped-call]

    def combine(self) -> None:
        """Nothing is left to do: backward has added everything up."""

    def observations(self) -> dict[str, Tensor]:
        """Nothing: the tasks' gradients are never seen apart."""
        return {}
