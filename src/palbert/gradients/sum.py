"""Sum: the gradient of the weighted sum of losses, L = Σ λ_i L_i."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palbert.gradients import GradientMethod
from palbert.runtime.distributed import Ranks


class Sum(GradientMethod):
    """Add the tasks' gradients, each with its weight."""

    def __init__(self, weights: Mapping[str, float], *, parameters: Sequence[Tensor] = ()) -> None:
        self.weights = dict(weights)
        self.parameters = list(parameters)
        self.ranks = Ranks()

    def join(self, ranks: Ranks) -> None:
        """Sum the gradients over several processes."""
        self.ranks = ranks

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Add the gradients of one batch."""
        torch.stack([self.weights[task] * loss for task, loss in losses.items()]).sum().backward()  # type: ignore[no-untyped-call]

    def combine(self) -> None:
        """Sum over processes; `backward` has added up everything else."""
        self.ranks.sum_in_place(self.parameters)
