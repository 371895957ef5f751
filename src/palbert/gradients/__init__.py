"""Gradient methods: how the losses of several tasks become one gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor


class GradientMethod(Protocol):
    """Leave one gradient in every parameter's `.grad`."""

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take in the losses of one batch; a step may have several."""
        ...

    def combine(self) -> None:
        """Finish the step's gradient."""
        ...

    def observations(self) -> dict[str, Tensor]:
        """Return what the last step showed: the cosine of each pair of tasks, by "first/second"."""
        ...
