"""GradientSum: the gradients of several processes, summed between the captured parts of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from palbert.errors import TrainingError
from palbert.runtime.distributed import Ranks
from palbert.runtime.replay import Decision


class GradientSum:
    """Sum the gradients of some parameters over processes.

    All steps hold these gradients in the same memory: a captured step writes there in every replay, and the processes
    communicate between two of its graphs, whichever of them replay the step and whichever compute it.

    Args:
        ranks: The processes.
        parameters: The parameters, in the same order in every process.
    """

    def __init__(self, ranks: Ranks, parameters: Sequence[Tensor]) -> None:
        self.ranks = ranks
        self.parameters = list(parameters)
        self.memory: dict[torch.dtype, Tensor] = {}
        self._views: list[Tensor] = []

    @classmethod
    def over(cls, ranks: Ranks, parameters: Sequence[Tensor]) -> GradientSum | None:
        """Return the sum over these processes; None if this is the only one."""
        return cls(ranks, parameters) if ranks.communicate else None

    @property
    def held(self) -> list[Tensor]:
        """Tensors that stay allocated between steps."""
        return list(self.memory.values())

    def collect(self) -> Decision:
        """Move all gradients to the common memory; return the function that sums them, once they are computed."""
        if not self._views:
            self._allocate()
        gradients = [parameter.grad for parameter in self.parameters]
        held = [gradient is not None for gradient in gradients]
        views = [view for view, is_held in zip(self._views, held, strict=True) if is_held]
        if views:
            torch._foreach_copy_(views, [gradient for gradient in gradients if gradient is not None])
        for parameter, view, is_held in zip(self.parameters, self._views, held, strict=True):
            parameter.grad = view if is_held else None
        return partial(self._sum, held, [])

    def _allocate(self) -> None:
        sizes = dict.fromkeys((parameter.dtype for parameter in self.parameters), 0)
        for parameter in self.parameters:
            sizes[parameter.dtype] += parameter.numel()
        device = self.parameters[0].device
        self.memory = {dtype: torch.zeros(size, dtype=dtype, device=device) for dtype, size in sizes.items()}
        used = dict.fromkeys(sizes, 0)
        for parameter in self.parameters:
            start = used[parameter.dtype]
            used[parameter.dtype] = start + parameter.numel()
            self._views.append(self.memory[parameter.dtype][start : used[parameter.dtype]].view_as(parameter))

    def _sum(self, held: Sequence[bool], agreed: list[bool]) -> None:
        """Sum the gradients that a process has; where this one has none, its gradient is 0.

        Args:
            held: Which parameters have a gradient in this process.
            agreed: Which have one in any process: filled by the first call, since graphs repeat what follows from it.
        """
        found = [number > 0 for number in self.ranks.count(*held)]
        if agreed and found != agreed:
            raise TrainingError(
                "Processes differ in the parameters that a step trains.",
                hint='Let objectives of your own use the same parameters in all steps, or set run.capture = "off".',
            )
        agreed[:] = found
        for parameter, view, mine, any_one in zip(self.parameters, self._views, held, found, strict=True):
            if any_one and not mine:
                parameter.grad = view.zero_()
        self.ranks.add_in_place(*self._runs(found))

    def _runs(self, found: Sequence[bool]) -> Iterator[Tensor]:
        """Yield the gradients as few long pieces of the common memory."""
        for dtype, memory in self.memory.items():
            start = stop = 0
            for parameter, wanted in zip(self.parameters, found, strict=True):
                if parameter.dtype != dtype:
                    continue
                if not wanted:
                    if stop > start:
                        yield memory[start:stop]
                    start = stop + parameter.numel()
                stop += parameter.numel()
            if stop > start:
                yield memory[start:stop]
