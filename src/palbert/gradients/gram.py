"""Gram: inner products of the tasks' gradients, collected parameter by parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor


class Gram:
    """The matrix of all ⟨g_i, g_j⟩ over the parameters that at least two tasks have a gradient for.

    A product needs both gradients, so it concerns shared parameters only by itself; squares are kept apart by
    parameter until it is known which of them are shared. All values stay on the device.
    """

    def __init__(self, tasks: Iterable[str]) -> None:
        self.tasks = list(tasks)
        self._squares: dict[str, dict[int, Tensor]] = {task: {} for task in self.tasks}
        self._products: dict[tuple[str, str], list[Tensor]] = {}

    def add_square(self, task: str, place: int, gradient: Tensor | None) -> None:
        """Take in ⟨g, g⟩ of one parameter."""
        if gradient is not None:
            self._squares[task][place] = _dot(gradient, gradient)

    def add_product(self, one: str, other: str, first: Tensor | None, second: Tensor | None) -> None:
        """Take in ⟨g, g'⟩ of one parameter."""
        if first is not None and second is not None:
            self._products.setdefault((one, other), []).append(_dot(first, second))

    @property
    def shared(self) -> set[int]:
        """The parameters that several tasks have a gradient for."""
        return {place for place, tasks in self._uses().items() if tasks > 1}

    @property
    def own(self) -> set[int]:
        """The parameters that exactly one task has a gradient for."""
        return {place for place, tasks in self._uses().items() if tasks == 1}

    def matrix(self) -> Tensor:
        """Return the matrix, (tasks, tasks); there must be a shared parameter."""
        shared = self.shared
        zero = next(iter(square for squares in self._squares.values() for square in squares.values())).new_zeros(())
        rows = []
        for one in self.tasks:
            squares = [square for place, square in self._squares[one].items() if place in shared]
            products = {
                other: self._products.get((one, other)) or self._products.get((other, one)) for other in self.tasks
            }
            products[one] = squares
            rows.append(torch.stack([torch.stack(values).sum() if values else zero for values in products.values()]))
        return torch.stack(rows)

    def _uses(self) -> Counter[int]:
        return Counter(place for squares in self._squares.values() for place in squares)


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return torch.dot(one.flatten(), other.flatten())
