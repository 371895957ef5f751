"""Split: each task's gradient of the weights they share, from one backward pass over a batch of all tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import accumulate, groupby

import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.factors import Factor, Factors, product, table_gradient

ALIGNMENT = 16
"""The length of a row is a multiple of this: kernels read and write several numbers at once."""


class Rows:
    """The gradients of a step's tasks side by side, a row each, in memory that serves all steps.

    Whoever has a part of a gradient adds it to its place; the first of a step writes over what was there before.

    Args:
        parameters: What gradients are for, in the order of their columns.
        most: Tasks of a step, at most: steps that are captured cannot make room for more.
        tasks: The tasks of the present step, in the order of the rows; others add to the same list.
    """

    def __init__(self, parameters: Sequence[Tensor], *, most: int, tasks: list[str] | None = None) -> None:
        self.parameters = list(parameters)
        self.most = most
        self.tasks: list[str] = [] if tasks is None else tasks
        """The tasks of the present step, in the order of the rows."""
        self.numbers = torch.empty(0, 0)
        """All gradients, (tasks, numbers); made when first needed."""
        self._place = {id(parameter): place for place, parameter in enumerate(parameters)}
        self._ends = list(accumulate(parameter.numel() for parameter in parameters))
        self._written: set[tuple[int, int]] = set()

    def row(self, task: str) -> int:
        """Return the row of a task; the next one for a task that is new in this step."""
        if task not in self.tasks:
            self.tasks.append(task)
        return self.tasks.index(task)

    def __contains__(self, parameter: Tensor) -> bool:
        return id(parameter) in self._place

    def has(self, parameter: Tensor) -> bool:
        """Whether there is a gradient of a parameter in this step."""
        place = self._place[id(parameter)]
        return any((place, row) in self._written for row in range(len(self.tasks)))

    def add(self, parameter: Tensor, task: str, gradient: Tensor) -> None:
        """Add to a task's gradient of a parameter."""
        target, first = self._target(parameter, task)
        if first:
            target.copy_(gradient)
        else:
            target.add_(gradient)

    def add_product(self, matrix: Tensor, task: str, left: Tensor, right: Tensor) -> None:
        """Add the product of two matrices to a task's gradient of a matrix."""
        target, first = self._target(matrix, task)
        if first:
            product(left, right, out=target)
        else:
            target.add_(product(left, right))

    def add_all(self, parameter: Tensor, gradients: Tensor) -> None:
        """Add to all tasks' gradients of a parameter, (tasks, …)."""
        targets, first = self._targets(parameter)
        if first:
            targets.copy_(gradients)
        else:
            targets.add_(gradients)

    def add_all_products(self, parameter: Tensor, left: Tensor, right: Tensor) -> None:
        """Add products to all tasks' gradients: a row of one for a vector, one of many for a matrix, (tasks, …)."""
        targets, first = self._targets(parameter)
        if first:
            product(left, right, out=targets)
        else:
            targets.add_(product(left, right))

    def columns(self, place: int) -> slice:
        """Return the columns of a parameter."""
        return slice(self._ends[place] - self.parameters[place].numel(), self._ends[place])

    def view(self, place: int, row: int) -> Tensor:
        """Return one task's gradient of a parameter."""
        return self.numbers[row, self.columns(place)].view(self.parameters[place].shape)

    def holders(self) -> dict[int, list[int]]:
        """Return the rows that have a gradient of each parameter, by the parameter's place."""
        ordered = sorted(self._written)
        return {place: [row for _, row in found] for place, found in groupby(ordered, lambda written: written[0])}

    def blocks(self, places: Sequence[int]) -> list[Tensor]:
        """Return the gradients of some parameters, as few blocks of columns, (tasks, numbers) each; 0 where none is."""
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
        """Begin a step."""
        self.tasks.clear()
        self._written = set()

    def _see_to_room(self) -> None:
        """Make the rows: with the first gradient, for as many as were announced. More are copied to make room."""
        if len(self.tasks) <= len(self.numbers):
            return
        length = -(-self._ends[-1] // ALIGNMENT) * ALIGNMENT
        former, count = self.numbers, max(self.most, len(self.tasks))
        self.numbers = self.parameters[0].detach().new_zeros(count, length)
        if len(former):
            self.numbers[: len(former)] = former

    def _target(self, parameter: Tensor, task: str) -> tuple[Tensor, bool]:
        """Return a task's gradient of a parameter, and whether it has none yet."""
        place, row = self._place[id(parameter)], self.row(task)
        self._see_to_room()
        return self.view(place, row), self._is_first(place, row)

    def _targets(self, parameter: Tensor) -> tuple[Tensor, bool]:
        """Return all tasks' gradients of a parameter, (tasks, …), and whether there are none yet."""
        place = self._place[id(parameter)]
        self._see_to_room()
        targets = self.numbers[: len(self.tasks), self.columns(place)].view(-1, *parameter.shape)
        first = [row for row in range(len(self.tasks)) if self._is_first(place, row)]
        if len(first) == len(self.tasks):
            return targets, True
        for row in first:
            targets[row].zero_()
        return targets, False

    def _is_first(self, place: int, row: int) -> bool:
        """Note that a gradient is written; return whether it is for the first time in this step."""
        first = (place, row) not in self._written
        self._written.add((place, row))
        return first


class Split:
    """Has the weights' gradients of passes inside of `watching` written to rows, while they are `taken`.

    Args:
        rows: Where gradients go.
        large: Weights whose gradients stay factors; in a step with too many tokens they go to rows of their own, which
            are made when first needed.
    """

    def __init__(self, rows: Rows, large: Sequence[Tensor] = ()) -> None:
        self.rows = rows
        self.factors = Factors()
        self.large = Rows(large, most=rows.most, tasks=rows.tasks)
        self.is_open = False

    def add(self, weight: Tensor, factor: Factor) -> None:
        """Add to all tasks' gradients of a weight: its factors where these are less work, or the products."""
        if weight not in self.large:
            _write(self.rows, weight, factor)
        elif self.large.has(weight) or not self.factors.keep(weight, factor):
            for former in (*self.factors.take_back(weight), factor):
                _write(self.large, weight, former)

    def clear(self) -> None:
        """Forget the gradients of a step."""
        self.rows.clear()
        self.large.clear()
        self.factors.clear()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Split the gradients of the passes that begin now."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the gradients of backward passes; at other times they do without those of the weights."""
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False


class Shares:
    """Which tokens of one pass belong to whom: what backward needs to tell the tasks' gradients apart.

    Tokens of different tasks lie in different stretches of a packed batch, and no token of one hears of those of
    another. So one backward pass gives the gradients of all tasks' activations; those of weights are sums over
    tokens, and are taken here stretch by stretch.
    """

    def __init__(self, split: Split, batch: PackedBatch) -> None:
        self.split = split
        self.tokens = batch.tokens
        self.spans = [(part.task, part.tokens) for part in batch.parts.values()]
        self._device = batch.ids.device
        self._chosen: dict[torch.dtype, Tensor] = {}

    @property
    def wanted(self) -> bool:
        """Whether the gradients of weights are wanted now."""
        return self.split.is_open

    def add(self, parameter: Tensor, task: str, gradient: Tensor) -> None:
        """Add to a task's gradient of a parameter."""
        self.split.rows.add(parameter, task, gradient)

    def add_products(self, matrix: Tensor, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ · right over the tokens of each task, (tokens, n) and (tokens, m), to its gradient of a matrix."""
        self.split.add(matrix, Factor(self, left.detach(), right.detach()))

    def add_lookups(self, table: Tensor, gradient: Tensor, places: Tensor) -> None:
        """Add what the tokens of each task looked up, (tokens, n) and (tokens,), to its gradient of a table."""
        self.split.add(table, Factor(self, gradient.detach(), places))

    def add_sums(self, vector: Tensor, values: Tensor) -> None:
        """Add the sum over the tokens of each task, (tokens, n), to its gradient of a vector."""
        # One product for all tasks takes less time than a sum over rows for each.
        self.split.rows.add_all_products(vector, self.of_tasks(values), values)

    def add_each(self, vector: Tensor, gradients: Tensor) -> None:
        """Add what each stretch has, (stretches, n), to its task's gradient of a vector."""
        if self._are_rows():
            self.split.rows.add_all(vector, gradients)
            return
        for (task, _), gradient in zip(self.spans, gradients, strict=True):
            self.split.rows.add(vector, task, gradient)

    @cached_property
    def bounds(self) -> Tensor:
        """Where each stretch starts and ends, for kernels: on the device, (stretches, 2)."""
        bounds = torch.empty(len(self.spans), 2, dtype=torch.int32, device=self._device)
        for row, (_, tokens) in zip(bounds, self.spans, strict=True):
            row[0].fill_(tokens.start)  # numbers that kernels carry along: nobody waits for a copy from the host
            row[1].fill_(tokens.stop)
        return bounds

    def _are_rows(self) -> bool:
        """Whether the stretches are those of the rows' tasks, one each, in their order."""
        rows = self.split.rows
        return [rows.row(task) for task, _ in self.spans] == list(range(len(rows.tasks)))

    def are_even(self) -> bool:
        """Whether they also have one length, so that one batch of products serves all."""
        length = self.tokens // len(self.spans)
        even = all(tokens == slice(at * length, (at + 1) * length) for at, (_, tokens) in enumerate(self.spans))
        return even and length * len(self.spans) == self.tokens and self._are_rows()

    def of_tasks(self, like: Tensor) -> Tensor:
        """Return 1 where a token belongs to a task and 0 elsewhere, (tasks, tokens)."""
        rows = [self.split.rows.row(task) for task, _ in self.spans]
        count = len(self.split.rows.tasks)
        chosen = self._chosen.get(like.dtype)
        if chosen is None or len(chosen) != count:
            chosen = self._chosen[like.dtype] = like.new_zeros(count, self.tokens)
            for row, (_, tokens) in zip(rows, self.spans, strict=True):
                chosen[row, tokens].fill_(1)
        return chosen


def _write(rows: Rows, weight: Tensor, factor: Factor) -> None:
    """Add the product of factors to the rows of their tasks."""
    stretches, left, right = factor.stretches, factor.left, factor.right
    if factor.is_lookup:
        for task, tokens in stretches.spans:
            rows.add(weight, task, table_gradient(left[tokens], right[tokens], len(weight)))
    elif stretches.are_even():
        lefts, rights = (values.view(len(stretches.spans), -1, values.shape[1]) for values in (left, right))
        rows.add_all_products(weight, lefts.transpose(1, 2), rights)
    else:
        for task, tokens in stretches.spans:
            rows.add_product(weight, task, left[tokens].t(), right[tokens])


_active: ContextVar[Split | None] = ContextVar("_active", default=None)
_present: ContextVar[Shares | None] = ContextVar("_present", default=None)


@contextmanager
def passing(batch: PackedBatch) -> Iterator[None]:
    """Begin a pass over a batch, for the functions that ask for `shares`."""
    split = _active.get() if torch.is_grad_enabled() else None
    with sharing(None if split is None else Shares(split, batch)):
        yield


@contextmanager
def sharing(shares: Shares | None) -> Iterator[None]:
    """Go on with a pass that began before."""
    token = _present.set(shares)
    try:
        yield
    finally:
        _present.reset(token)


def shares() -> Shares | None:
    """Return how the present pass is shared, if its gradients are split; None where autograd takes them as ever."""
    return _present.get()
