"""Comparison: the gradients of a step's tasks side by side, and their inner products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Comparison:
    """The gradients of several tasks; all on the device, and nothing here waits for it."""

    tasks: list[str]
    """The tasks of the step, in the order of the rows."""
    places: list[int]
    """Places of the shared parameters: those that at least two of the tasks have a gradient for."""
    rows: Tensor
    """Each task's gradient of the shared parameters, end to end, (tasks, numbers)."""
    matrix: Tensor
    """All ⟨g_i, g_j⟩ over the shared parameters, (tasks, tasks)."""
    weights: Tensor
    """What each task counts for, (tasks,); 1 until it is decided."""

    @classmethod
    def of(cls, kept: Mapping[str, list[Tensor | None]], parameters: Sequence[Tensor]) -> Comparison:
        """Move the gradients of shared parameters out of the tasks' lists."""
        gradients = list(kept.values())
        places = [place for place in range(len(parameters)) if sum(each[place] is not None for each in gradients) > 1]
        numbers = sum(parameters[place].numel() for place in places)
        rows = parameters[0].new_empty(len(kept), numbers)
        for row, each in zip(rows, gradients, strict=True):
            if places:
                torch.cat([_flat(each[place], parameters[place]) for place in places], out=row)
            for place in places:
                each[place] = None  # a task's own memory is free before the next one's is copied
        return cls(list(kept), places, rows, rows @ rows.t(), rows.new_ones(len(kept)))

    def combine(self, parameters: Sequence[Tensor]) -> None:
        """Give the shared parameters the weighted sum as their gradient."""
        shared = [parameters[place] for place in self.places]
        total = self.weights @ self.rows
        for parameter, part in zip(shared, total.split([value.numel() for value in shared]), strict=True):  # type: ignore[no-untyped-call]
            parameter.grad = part.view_as(parameter)


def _flat(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter).flatten() if gradient is None else gradient.flatten()
