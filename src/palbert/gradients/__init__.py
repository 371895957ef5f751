"""Gradient methods: how the losses of several tasks become one gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor


class GradientMethod(Protocol):
    """Leave one gradient in every parameter's `.grad`.

    A method that has to look at numbers before it can combine has two methods more: `compare()`, called after the last
    `backward`, takes on the device what it needs and returns it, or None if there is nothing to decide; `decide(…)` is
    given that before `combine`, and may wait for the device. Everything else is captured in CUDA graphs.

    One that has to be there when losses are computed has `watch()`, the context that they are computed in. One that
    keeps something from batch to batch has `clear()`, called before a step's first batch: the step before may have
    broken off.
    """

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take in the losses of one batch; a step may have several."""
        ...

    def combine(self) -> None:
        """Finish the step's gradient."""
        ...

    def observations(self) -> dict[str, Tensor]:
        """Return what was seen since the last call: the cosine of each pair of tasks, by "first/second"."""
        ...
