"""Gradient methods: how the losses of several tasks become one gradient."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor

from palbert.errors import RecipeError
from palbert.runtime.distributed import Ranks


class GradientMethod:
    """Leave one gradient in every parameter's `.grad`; every method but `backward` may be left out.

    A step calls `clear`, then `watch` and `backward` for each of its batches, then `compare`, `decide` if there is
    something to decide, and `combine`. All of it but `decide` may be captured in a CUDA graph: nothing else waits for
    the device.
    """

    def check(self, *, accumulation: int) -> None:
        """Refuse what cannot work, by a ValueError: a task too few, or steps in so many pieces."""

    def join(self, ranks: Ranks) -> None:
        """Work on the gradients of several processes, added up; a method that does not say how has one process."""
        if ranks.size > 1:
            raise NotImplementedError(f"{type(self).__name__} has no method join(ranks).")

    @property
    def separate(self) -> bool:
        """Whether each task should come in a batch of its own."""
        return False

    @property
    def held(self) -> list[Tensor]:
        """The memory that stays for the gradients of the next step."""
        return []

    def clear(self) -> None:
        """Forget what is kept from batch to batch: the step before may have broken off."""

    def watch(self) -> AbstractContextManager[None]:
        """Return the context that the losses of a batch are computed in."""
        return nullcontext()

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take in the losses of one batch; a step may have several."""
        raise RecipeError(f"{type(self).__name__} has no method backward(losses).")

    def compare(self) -> Any:
        """Take on the device what is to be decided on, after the last `backward`; None if there is nothing."""
        return None

    def decide(self, question: Any) -> None:
        """Look at what `compare` returned; this may wait for the device."""

    def combine(self) -> None:
        """Finish the step's gradient."""

    def observations(self) -> dict[str, Tensor]:
        """Return what was seen since the last call: the cosine of each pair of tasks, by "first/second"."""
        return {}
