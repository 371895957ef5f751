"""Sum: the gradient of the weighted sum of losses, L = Σ λ_i L_i."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palbert.gradients import GradientMethod
from palbert.gradients.exchange import GradientSum
from palbert.runtime.distributed import Ranks
from palbert.runtime.replay import Decision


class Sum(GradientMethod):
    """Add the tasks' gradients, each with its weight."""

    def __init__(self, weights: Mapping[str, float], *, parameters: Sequence[Tensor] = ()) -> None:
        self.weights = dict(weights)
        self.parameters = list(parameters)
        self.sum: GradientSum | None = None

    @property
    def held(self) -> list[Tensor]:
        """Tensors that stay allocated between steps."""
        return self.sum.held if self.sum else []

    def join(self, ranks: Ranks) -> None:
        """Sum the gradients over several processes."""
        self.sum = GradientSum.over(ranks, self.parameters)

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Add the gradients of one batch."""
        torch.stack([self.weights[task] * loss for task, loss in losses.items()]).sum().backward()  # type: ignore[no-untyped-call]

    def exchange(self) -> Decision | None:
        """Sum over processes; `backward` has added up everything else."""
        return self.sum.collect() if self.sum else None
