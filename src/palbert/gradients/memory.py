"""Memory: how the gradients of a step's tasks are had until it is known what each task counts for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from palbert.gradients import GradientMethod
from palbert.runtime.distributed import Ranks


class Weigh(Protocol):
    """Say what each task of a step counts for."""

    def __call__(self, tasks: Sequence[str], matrix: Tensor, *, shared: bool) -> Tensor:
        """Return one weight a task, (tasks,).

        Args:
            tasks: The tasks of the step, in the order of the matrix.
            matrix: All ⟨g_i, g_j⟩ over the shared parameters, (tasks, tasks), on the CPU.
            shared: Whether there is a shared parameter.
        """
        ...


class Memory(GradientMethod):
    """The half of a `Weighted` method that handles gradients, those of losses that have their λ; the other half weighs.

    Args:
        parameters: All that is trained.
        weigh: The other half.
    """

    def __init__(self, parameters: Sequence[Tensor], *, weigh: Weigh) -> None:
        self.parameters = list(parameters)
        self.weigh = weigh
        self.ranks = Ranks()

    def join(self, ranks: Ranks) -> None:
        """Work on the gradients of several processes, added up."""
        self.ranks = ranks

    def expect(self, tasks: int) -> None:
        """Be ready for steps of so many tasks."""
