"""Split: each task's gradient of the shared weights, from one backward pass over a batch of all tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property

import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.factors import Factor, Factors, table_gradient
from palbert.model.task_gradients import TaskGradients


class Split:
    """Collects each task's gradients of the weights that passes inside `watching` use, while they are `taken`.

    Args:
        gradients: Where they are added.
        large: Weights whose gradients are kept as factors; in a step with too many tokens they are added to
            `TaskGradients` of their own, which are allocated when first needed.
    """

    def __init__(self, gradients: TaskGradients, large: Sequence[Tensor] = ()) -> None:
        self.gradients = gradients
        self.factors = Factors()
        self.large = TaskGradients(large, most=gradients.most, tasks=gradients.tasks)
        self.is_open = False

    def add(self, weight: Tensor, factor: Factor) -> None:
        """Add to all tasks' gradients of a weight: as factors where that is less work, or their products."""
        if weight not in self.large:
            _write(self.gradients, weight, factor)
        elif self.large.has(weight) or not self.factors.keep(weight, factor):
            for each in (*self.factors.take_back(weight), factor):
                _write(self.large, weight, each)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Split the gradients of the passes that begin inside the context."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Collect the gradients of backward passes; outside the context these skip the weights."""
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False


class Shares:
    """Which tokens of one pass belong to which task: what backward needs to separate the tasks' gradients.

    Tokens of different tasks lie in different stretches of a packed batch and do not depend on each other. So one
    backward pass gives the gradients of all tasks' activations; those of weights are sums over tokens, and are computed
    here for each stretch.
    """

    def __init__(self, split: Split, batch: PackedBatch) -> None:
        self.split = split
        self.tokens = batch.tokens
        self.spans = [(part.task, part.tokens) for part in batch.parts.values()]
        self._device = batch.ids.device
        self._chosen: dict[torch.dtype, Tensor] = {}

    @property
    def wanted(self) -> bool:
        """Whether the gradients of weights are collected now."""
        return self.split.is_open

    def add(self, parameter: Tensor, task: str, gradient: Tensor) -> None:
        """Add to a task's gradient for a parameter."""
        self.split.gradients.add(parameter, task, gradient)

    def add_products(self, matrix: Tensor, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ · right over the tokens of each task, (tokens, n) and (tokens, m), to its gradient of a matrix."""
        self.split.add(matrix, Factor(self, left.detach(), right.detach()))

    def add_lookups(self, table: Tensor, gradient: Tensor, places: Tensor) -> None:
        """Add what the tokens of each task looked up, (tokens, n) and (tokens,), to its gradient of a table."""
        self.split.add(table, Factor(self, gradient.detach(), places))

    def add_sums(self, vector: Tensor, values: Tensor) -> None:
        """Add the sum over the tokens of each task, (tokens, n), to its gradient of a vector."""
        # One product for all tasks takes less time than a sum over rows for each.
        self.split.gradients.add_all_products(vector, self.of_tasks(values), values)

    def add_each(self, vector: Tensor, gradients: Tensor) -> None:
        """Add one row per stretch, (stretches, n), to its task's gradient of a vector."""
        if self._are_rows():
            self.split.gradients.add_all(vector, gradients)
            return
        for (task, _), gradient in zip(self.spans, gradients, strict=True):
            self.split.gradients.add(vector, task, gradient)

    @cached_property
    def bounds(self) -> Tensor:
        """Start and end of each stretch, on the device for kernels, (stretches, 2)."""
        bounds = torch.empty(len(self.spans), 2, dtype=torch.int32, device=self._device)
        for row, (_, tokens) in zip(bounds, self.spans, strict=True):
            row[0].fill_(tokens.start)  # fill_ passes the number to a kernel, so nothing waits for a copy from the host
            row[1].fill_(tokens.stop)
        return bounds

    def _are_rows(self) -> bool:
        """Whether there is one stretch per row of the gradients, in the same order."""
        gradients = self.split.gradients
        return [gradients.row(task) for task, _ in self.spans] == list(range(len(gradients.tasks)))

    def are_even(self) -> bool:
        """Whether all stretches also have one length, so that one batch of products serves all."""
        length = self.tokens // len(self.spans)
        even = all(tokens == slice(at * length, (at + 1) * length) for at, (_, tokens) in enumerate(self.spans))
        return even and length * len(self.spans) == self.tokens and self._are_rows()

    def of_tasks(self, like: Tensor) -> Tensor:
        """Return 1 where a token belongs to a task and 0 elsewhere, (tasks, tokens)."""
        rows = [self.split.gradients.row(task) for task, _ in self.spans]
        count = len(self.split.gradients.tasks)
        chosen = self._chosen.get(like.dtype)
        if chosen is None or len(chosen) != count:
            chosen = self._chosen[like.dtype] = like.new_zeros(count, self.tokens)
            for row, (_, tokens) in zip(rows, self.spans, strict=True):
                chosen[row, tokens].fill_(1)
        return chosen


def _write(gradients: TaskGradients, weight: Tensor, factor: Factor) -> None:
    """Add the products of a factor to the gradients of its tasks."""
    stretches, left, right = factor.stretches, factor.left, factor.right
    if factor.is_lookup:
        for task, tokens in stretches.spans:
            gradients.add(weight, task, table_gradient(left[tokens], right[tokens], len(weight)))
    elif stretches.are_even():
        lefts, rights = (values.view(len(stretches.spans), -1, values.shape[1]) for values in (left, right))
        gradients.add_all_products(weight, lefts.transpose(1, 2), rights)
    else:
        for task, tokens in stretches.spans:
            gradients.add_product(weight, task, left[tokens].t(), right[tokens])


_active: ContextVar[Split | None] = ContextVar("_active", default=None)
_current: ContextVar[Shares | None] = ContextVar("_current", default=None)


@contextmanager
def passing(batch: PackedBatch) -> Iterator[None]:
    """Begin a pass over a batch, for the functions that call `shares`."""
    split = _active.get() if torch.is_grad_enabled() else None
    with sharing(None if split is None else Shares(split, batch)):
        yield


@contextmanager
def sharing(shares: Shares | None) -> Iterator[None]:
    """Continue a pass that began before."""
    token = _current.set(shares)
    try:
        yield
    finally:
        _current.reset(token)


def shares() -> Shares | None:
    """Return which tokens of the current pass belong to which task; None if its gradients are not split."""
    return _current.get()
