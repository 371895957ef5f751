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

    def divisor(self, norm: Tensor, longest: float) -> Tensor:
        """Return what brings a gradient of this length to its own scale, and down to a length if it is longer."""
        return (norm / longest).clamp(min=1.0)

    def overflow(self, norm: Tensor) -> Tensor | None:
        """Return 1 where a gradient of this length is to be left out, else 0; None where none ever is."""
        return None


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

    def divisor(self, norm: Tensor, longest: float) -> Tensor:
        """Return what brings a gradient of this length to its own scale, and down to a length if it is longer."""
        return super().divisor(norm / self.scale, longest) * self.scale

    def overflow(self, norm: Tensor) -> Tensor:
        """Return 1 where a gradient of this length is to be left out, else 0; the scale follows."""
        overflow = ~norm.isfinite()
        grown = ~overflow & (self.streak + 1 >= INTERVAL)
        self.streak.copy_(torch.where(overflow | grown, 0.0, self.streak + 1))
        self.scale.mul_(torch.where(overflow, 1 / GROWTH, torch.where(grown, GROWTH, 1.0)))
        return overflow.float()
