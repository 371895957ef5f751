"""Loss scaling: gradients in float16 without underflow (Micikevicius et al. 2018, arXiv:1710.03740)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

START, GROWTH, INTERVAL = 2.0**16, 2.0, 2000
"""The first scale, what it is multiplied or divided by, and after how many steps without overflow it grows."""


class NoScale(nn.Module):
    """Losses as they are: float32 and bfloat16 reach far enough down."""

    def forward(self, loss: Tensor) -> Tensor:
        """Return the loss."""
        return loss

    def prepare(self, optimizer: torch.optim.Optimizer, norm: Tensor, longest: float) -> None:
        """Let the optimizer's next step scale a gradient of this length down to another, if it is longer.

        A fused optimizer divides by `grad_scale` while it reads the gradients: clipping takes no pass of its own.
        """
        optimizer.grad_scale = (norm / longest).clamp(min=1.0)  # type: ignore[attr-defined]


class DynamicScale(NoScale):
    """Multiply losses by a scale that adapts: halved, and the step left out, when a gradient overflows.

    All of it happens on the device, by the rule of torch's GradScaler. Its state is kept with that of the objective.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(START))
        self.register_buffer("streak", torch.tensor(0.0))  # steps since the scale changed
        self.scale: Tensor
        self.streak: Tensor

    def forward(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale."""
        return loss * self.scale

    def prepare(self, optimizer: torch.optim.Optimizer, norm: Tensor, longest: float) -> None:
        """Let the optimizer's next step divide by the scale too, or do nothing where the gradient overflowed."""
        overflow = ~norm.isfinite()
        super().prepare(optimizer, norm / self.scale, longest)
        optimizer.grad_scale = optimizer.grad_scale * self.scale  # type: ignore[attr-defined]
        optimizer.found_inf = overflow.float()  # type: ignore[attr-defined]
        grown = ~overflow & (self.streak + 1 >= INTERVAL)
        factor = torch.where(overflow, 1 / GROWTH, torch.where(grown, GROWTH, 1.0))
        self.streak.copy_(torch.where(overflow | grown, 0.0, self.streak + 1))
        self.scale.mul_(factor)
