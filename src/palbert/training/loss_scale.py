"""Loss scaling: gradients in float16 without underflow (Micikevicius et al. 2018, arXiv:1710.03740)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

START, GROWTH, INTERVAL = 2.0**16, 2.0, 2000
"""The first scale, the factor by which it changes, and the steps without overflow after which it grows."""


class LossScale(nn.Module, ABC):
    """Scale the losses, and undo it when gradients are clipped."""

    @abstractmethod
    def forward(self, loss: Tensor) -> Tensor:
        """Return the scaled loss."""

    @abstractmethod
    def divisor(self, norm: Tensor, longest: float) -> Tensor:
        """Return the divisor that unscales a gradient of this norm, and clips it to a norm of `longest`."""

    @abstractmethod
    def overflow(self, norm: Tensor) -> Tensor | None:
        """Return 1 if a gradient of this norm has overflowed and its step is to be skipped, else 0; None for never."""


class NoScale(LossScale):
    """Losses as they are: float32 and bfloat16 represent small gradients well enough."""

    def forward(self, loss: Tensor) -> Tensor:
        """Return the loss."""
        return loss

    def divisor(self, norm: Tensor, longest: float) -> Tensor:
        """Return the divisor that clips a gradient of this norm to `longest`."""
        return _clip_divisor(norm, longest)

    def overflow(self, norm: Tensor) -> None:
        """Return None."""


class DynamicScale(LossScale):
    """Multiply losses by a scale that adapts: when a gradient overflows, the scale is halved and the step skipped.

    Everything is computed on the device, by the rule of torch's GradScaler. The state is kept with the objective's.
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
        """Return the divisor that unscales a gradient of this norm, and clips it to a norm of `longest`."""
        return _clip_divisor(norm / self.scale, longest) * self.scale

    def overflow(self, norm: Tensor) -> Tensor:
        """Return 1 if the gradient overflowed, else 0, and adapt the scale."""
        overflow = ~norm.isfinite()
        grown = ~overflow & (self.streak + 1 >= INTERVAL)
        self.streak.copy_(torch.where(overflow | grown, 0.0, self.streak + 1))
        self.scale.mul_(torch.where(overflow, 1 / GROWTH, torch.where(grown, GROWTH, 1.0)))
        return overflow.float()


def _clip_divisor(norm: Tensor, longest: float) -> Tensor:
    return (norm / longest).clamp(min=1.0)
