"""Gram: the inner products of the tasks' gradients, collected parameter by parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Products:
    """The Gram matrix, and which parameters it covers; on the CPU."""

    tasks: list[str]
    """The tasks of the step, in the order of the matrix."""
    shared: list[int]
    """Places of the parameters for which at least two tasks have a gradient other than 0."""
    own: list[int]
    """Places of the other parameters that have a gradient."""
    matrix: Tensor
    """All ⟨g_i, g_j⟩ over the shared parameters, (tasks, tasks)."""


class Gram:
    """Collect inner products on the device, and read them all at once.

    A task that uses a parameter has a gradient other than 0 for it: in a batch of several tasks, autograd gives one
    task's adapter a gradient of 0 for the loss of another. Products with such gradients are 0, so off the diagonal the
    matrix covers shared parameters only; on it, squares are kept per parameter until it is known which are shared.
    """

    def __init__(self, tasks: Iterable[str]) -> None:
        self.tasks = list(tasks)
        self._squares: dict[tuple[str, int], Tensor] = {}
        self._products: dict[tuple[str, str], list[Tensor]] = {}

    def add_square(self, task: str, place: int, gradient: Tensor) -> None:
        """Add ⟨g, g⟩ of one parameter."""
        self._squares[task, place] = _dot(gradient, gradient)

    def add_product(self, one: str, other: str, first: Tensor, second: Tensor) -> None:
        """Add ⟨g, g'⟩ of one parameter."""
        self._products.setdefault((one, other), []).append(_dot(first, second))

    def read(self) -> Products:
        """Copy everything to the CPU; the host waits for the device here and nowhere else in a step."""
        if not self._squares:
            return Products(self.tasks, [], [], torch.zeros(len(self.tasks), len(self.tasks)))
        totals = [torch.stack(values).sum() for values in self._products.values()]
        numbers = torch.stack([*self._squares.values(), *totals]).cpu()
        squares = dict(zip(self._squares, numbers, strict=False))
        used_by = Counter(place for (_, place), square in squares.items() if square != 0)
        touched = dict.fromkeys(place for _, place in squares)
        matrix = numbers.new_zeros(len(self.tasks), len(self.tasks))
        number = {task: index for index, task in enumerate(self.tasks)}
        for (task, place), square in squares.items():
            if used_by[place] > 1:
                matrix[number[task], number[task]] += square
        for (one, other), product in zip(self._products, numbers[len(squares) :], strict=True):
            matrix[number[one], number[other]] = matrix[number[other], number[one]] = product
        return Products(
            self.tasks,
            shared=[place for place in touched if used_by[place] > 1],
            own=[place for place in touched if used_by[place] <= 1],
            matrix=matrix,
        )


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return torch.dot(one.flatten(), other.flatten())
