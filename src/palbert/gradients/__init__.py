"""Gradient methods: how the losses of several tasks become one gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor

from palbert.gradients.weighting import Weighting
from palbert.runtime.distributed import Ranks
from palbert.runtime.replay import Decision

__all__ = ["GradientMethod", "Weighting"]


class GradientMethod(ABC):
    """Leave one gradient in every parameter's `.grad`; only `backward` has to be implemented.

    A step calls `clear`, then `forward_context` and `backward` for each of its batches, then `exchange`, `compare`,
    `decide` if `compare` returned something, and `combine`. All of them may be captured in a CUDA graph, so they must
    neither wait for the device nor communicate; only `decide` and what `exchange` returns may do so.
    """

    def check(self, *, accumulation: int) -> None:
        """Raise ValueError for too few tasks or unsupported accumulation."""

    def join(self, ranks: Ranks) -> None:
        """Sum the gradients over these processes from now on, in `exchange`, or in `combine` without CUDA graphs.

        A method that does not implement this runs in one process only.
        """
        if ranks.size > 1:
            raise NotImplementedError(f"{type(self).__name__} has no method join(ranks).")

    @property
    def separate(self) -> bool:
        """Whether each task should come in its own batch."""
        return False

    @property
    def held(self) -> list[Tensor]:
        """Tensors that stay allocated between steps."""
        return []

    def clear(self) -> None:
        """Forget everything of the last step, which may have been interrupted."""

    def forward_context(self) -> AbstractContextManager[None]:
        """Return the context in which the losses of a batch are computed."""
        return nullcontext()

    @abstractmethod
    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Compute the gradients of one batch, given each task's loss; a step may have several batches."""

    def exchange(self) -> Decision | None:
        """Return the function that sums the gradients over processes; None if there is nothing to sum."""
        return None

    def compare(self) -> Any:
        """Compute on the device what `decide` needs, from the summed gradients; None if there is nothing to decide."""
        return None

    def decide(self, question: Any) -> None:
        """Decide on the host, given what `compare` returned; may wait for the device."""

    def combine(self) -> None:
        """Finish the gradient of the step."""

    def observations(self) -> dict[str, Tensor]:
        """Return the cosine of each pair of tasks since the last call, by "first/second"."""
        return {}
