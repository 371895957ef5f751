"""TaskGradients: the gradients of all tasks of a step in one matrix, one row per task."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby

import torch
from torch import Tensor

from palbert.model.factors import product

ALIGNMENT = 16
"""The length of a row is a multiple of this, because kernels read and write several numbers at once."""


class TaskGradients:
    """The gradients of a step's tasks, one row per task, in memory that all steps share.

    The first contribution to a gradient in a step overwrites that of the last step; later ones are added.

    Args:
        parameters: The parameters, in the order of the columns.
        most: Maximum number of tasks in a step: captured steps cannot allocate memory for more.
        tasks: The list of the current step's tasks, if it is shared with another `TaskGradients`.
    """

    def __init__(self, parameters: Sequence[Tensor], *, most: int, tasks: list[str] | None = None) -> None:
        self.parameters = list(parameters)
        self.most = most
        self.tasks: list[str] = [] if tasks is None else tasks
        """The tasks of the current step, in the order of the rows."""
        self.numbers = torch.empty(0, 0)
        """All gradients, (tasks, numbers); allocated when first needed."""
        self._place = {id(parameter): place for place, parameter in enumerate(parameters)}
        self._ends = list(accumulate(parameter.numel() for parameter in parameters))
        self._written: set[tuple[int, int]] = set()

    def row(self, task: str) -> int:
        """Return the row of a task; the next free one if the task is new in this step."""
        if task not in self.tasks:
            self.tasks.append(task)
        return self.tasks.index(task)

    def __contains__(self, parameter: Tensor) -> bool:
        return id(parameter) in self._place

    def has(self, parameter: Tensor) -> bool:
        """Whether any task has a gradient for a parameter in this step."""
        place = self._place[id(parameter)]
        return any((place, row) in self._written for row in range(len(self.tasks)))

    def add(self, parameter: Tensor, task: str, gradient: Tensor) -> None:
        """Add to a task's gradient for a parameter."""
        target, first = self._target(parameter, task)
        if first:
            target.copy_(gradient)
        else:
            target.add_(gradient)

    def add_product(self, matrix: Tensor, task: str, left: Tensor, right: Tensor) -> None:
        """Add the product of two matrices to a task's gradient for a matrix."""
        target, first = self._target(matrix, task)
        if first:
            product(left, right, out=target)
        else:
            target.add_(product(left, right))

    def add_all(self, parameter: Tensor, gradients: Tensor) -> None:
        """Add to all tasks' gradients for a parameter, (tasks, …)."""
        targets, first = self._targets(parameter)
        if first:
            targets.copy_(gradients)
        else:
            targets.add_(gradients)

    def add_all_products(self, parameter: Tensor, left: Tensor, right: Tensor) -> None:
        """Add a batch of products to all tasks' gradients, (tasks, …); for a vector, one row of a product per task."""
        targets, first = self._targets(parameter)
        if first:
            product(left, right, out=targets)
        else:
            targets.add_(product(left, right))

    def columns(self, place: int) -> slice:
        """Return the columns of a parameter."""
        return slice(self._ends[place] - self.parameters[place].numel(), self._ends[place])

    def view(self, place: int, row: int) -> Tensor:
        """Return the gradient in a row for a parameter."""
        return self.numbers[row, self.columns(place)].view(self.parameters[place].shape)

    def holders(self) -> dict[int, list[int]]:
        """Return the rows that have a gradient for each parameter, by the parameter's place."""
        ordered = sorted(self._written)
        return {place: [row for _, row in found] for place, found in groupby(ordered, lambda written: written[0])}

    def blocks(self, places: Sequence[int]) -> list[Tensor]:
        """Return the gradients for some parameters as few blocks of columns, (tasks, numbers); missing ones are 0."""
        edges: list[slice] = []
        for place in places:
            for row in range(len(self.tasks)):
                if self._is_first(place, row):
                    self.view(place, row).zero_()
            columns = self.columns(place)
            if edges and edges[-1].stop == columns.start:
                edges[-1] = slice(edges[-1].start, columns.stop)
            else:
                edges.append(columns)
        return [self.numbers[: len(self.tasks), edge] for edge in edges]

    def clear(self) -> None:
        """Start a new step."""
        self.tasks.clear()
        self._written = set()

    def _allocate(self) -> None:
        """Allocate `most` rows with the first gradient; for more tasks, copy to a larger matrix."""
        if len(self.tasks) <= len(self.numbers):
            return
        length = -(-self._ends[-1] // ALIGNMENT) * ALIGNMENT
        previous, count = self.numbers, max(self.most, len(self.tasks))
        self.numbers = self.parameters[0].detach().new_zeros(count, length)
        if len(previous):
            self.numbers[: len(previous)] = previous

    def _target(self, parameter: Tensor, task: str) -> tuple[Tensor, bool]:
        """Return the memory of a task's gradient for a parameter, and whether it is unwritten in this step."""
        place, row = self._place[id(parameter)], self.row(task)
        self._allocate()
        return self.view(place, row), self._is_first(place, row)

    def _targets(self, parameter: Tensor) -> tuple[Tensor, bool]:
        """Return the memory of all tasks' gradients for a parameter, (tasks, …), and whether all are unwritten."""
        place = self._place[id(parameter)]
        self._allocate()
        targets = self.numbers[: len(self.tasks), self.columns(place)].view(-1, *parameter.shape)
        first = [row for row in range(len(self.tasks)) if self._is_first(place, row)]
        if len(first) == len(self.tasks):
            return targets, True
        for row in first:
            targets[row].zero_()
        return targets, False

    def _is_first(self, place: int, row: int) -> bool:
        """Mark a gradient as written; return whether this is the first time in this step."""
        first = (place, row) not in self._written
        self._written.add((place, row))
        return first
