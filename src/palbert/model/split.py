"""GradientSplitter: each task's gradient of the shared weights, from one backward pass over a batch of all tasks."""

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


class GradientSplitter:
    """Collects each task's gradients of the weights used by forward passes inside `splitting`.

    Only backward passes inside `collecting` add to them.

    Args:
        gradients: Where they are added.
        large: Weights whose gradients are kept as factors; in a step with too many tokens they are added to
            `TaskGradients` of their own, which are allocated when first needed.
    """

    def __init__(self, gradients: TaskGradients, large: Sequence[Tensor] = ()) -> None:
        self.gradients = gradients
        self.factors = Factors()
        self.large = TaskGradients(large, most=gradients.most, tasks=gradients.tasks)
        self.is_collecting = False

    def add(self, weight: Tensor, factor: Factor) -> None:
        """Add to all tasks' gradients of a weight: as factors where that is less work, or their products."""
        if weight not in self.large:
            _write(self.gradients, weight, factor)
        elif self.large.has(weight) or not self.factors.keep(weight, factor):
            for each in (*self.factors.pop(weight), factor):
                _write(self.large, weight, each)

    @contextmanager
    def splitting(self) -> Iterator[None]:
        """Split the gradients of the forward passes that begin inside the context."""
        token = _splitter.set(self)
        try:
            yield
        finally:
            _splitter.reset(token)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the gradients of backward passes; outside the context, backward skips split weights."""
        self.is_collecting = True
        try:
            yield
        finally:
            self.is_collecting = False


class TaskTokens:
    """Which tokens of one pass belong to which task: what backward needs to separate the tasks' gradients.

    Tokens of different tasks lie in different spans of a packed batch and do not depend on each other. So one backward
    pass gives the gradients of all tasks' activations; those of weights are sums over tokens, computed here per span.
    """

    def __init__(self, splitter: GradientSplitter, batch: PackedBatch) -> None:
        self.splitter = splitter
        self.count = batch.tokens
        """Tokens of all tasks."""
        self.spans = [(part.task, part.tokens) for part in batch.parts.values()]
        """Tasks and their tokens, in the order of the batch; a task with several sets has several spans."""
        self._device = batch.ids.device
        self._chosen: dict[torch.dtype, Tensor] = {}

    @property
    def is_collecting(self) -> bool:
        """Whether the gradients of weights are collected now."""
        return self.splitter.is_collecting

    def add(self, parameter: Tensor, task: str, gradient: Tensor) -> None:
        """Add to a task's gradient for a parameter."""
        self.splitter.gradients.add(parameter, task, gradient)

    def add_products(self, matrix: Tensor, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ · right over the tokens of each task, (tokens, n) and (tokens, m), to its gradient of a matrix."""
        self.splitter.add(matrix, Factor(self, left.detach(), right.detach()))

    def add_lookups(self, table: Tensor, gradient: Tensor, places: Tensor) -> None:
        """Add what the tokens of each task looked up, (tokens, n) and (tokens,), to its gradient of a table."""
        self.splitter.add(table, Factor(self, gradient.detach(), places))

    def add_sums(self, vector: Tensor, values: Tensor) -> None:
        """Add the sum over the tokens of each task, (tokens, n), to its gradient of a vector."""
        # One product for all tasks takes less time than a sum over rows for each.
        self.splitter.gradients.add_all_products(vector, self.of_tasks(values), values)

    def add_each(self, vector: Tensor, gradients: Tensor) -> None:
        """Add one row per span, (spans, n), to its task's gradient of a vector."""
        if self._are_rows():
            self.splitter.gradients.add_all(vector, gradients)
            return
        for (task, _), gradient in zip(self.spans, gradients, strict=True):
            self.splitter.gradients.add(vector, task, gradient)

    @cached_property
    def bounds(self) -> Tensor:
        """Start and end of each span, on the device for kernels, (spans, 2)."""
        bounds = torch.empty(len(self.spans), 2, dtype=torch.int32, device=self._device)
        for row, (_, tokens) in zip(bounds, self.spans, strict=True):
            row[0].fill_(tokens.start)  # fill_ passes the number to a kernel, so nothing waits for a copy from the host
            row[1].fill_(tokens.stop)
        return bounds

    def _are_rows(self) -> bool:
        """Whether there is one span per row of the gradients, in the same order."""
        gradients = self.splitter.gradients
        return [gradients.row(task) for task, _ in self.spans] == list(range(len(gradients.tasks)))

    def are_even(self) -> bool:
        """Whether each row has one span, all of one length, so that one batched product is enough."""
        length = self.count // len(self.spans)
        even = all(tokens == slice(at * length, (at + 1) * length) for at, (_, tokens) in enumerate(self.spans))
        return even and length * len(self.spans) == self.count and self._are_rows()

    def of_tasks(self, like: Tensor) -> Tensor:
        """Return 1 where a token belongs to a task and 0 elsewhere, (tasks, tokens)."""
        rows = [self.splitter.gradients.row(task) for task, _ in self.spans]
        count = len(self.splitter.gradients.tasks)
        chosen = self._chosen.get(like.dtype)
        if chosen is None or len(chosen) != count:
            chosen = self._chosen[like.dtype] = like.new_zeros(count, self.count)
            for row, (_, tokens) in zip(rows, self.spans, strict=True):
                chosen[row, tokens].fill_(1)
        return chosen


def _write(gradients: TaskGradients, weight: Tensor, factor: Factor) -> None:
    """Add the products of a factor to the gradients of its tasks."""
    spans, left, right = factor.task_tokens.spans, factor.left, factor.right
    if factor.is_lookup:
        for task, tokens in spans:
            gradients.add(weight, task, table_gradient(left[tokens], right[tokens], len(weight)))
    elif factor.task_tokens.are_even():
        lefts, rights = (values.view(len(spans), -1, values.shape[1]) for values in (left, right))
        gradients.add_all_products(weight, lefts.transpose(1, 2), rights)
    else:
        for task, tokens in spans:
            gradients.add_product(weight, task, left[tokens].t(), right[tokens])


_splitter: ContextVar[GradientSplitter | None] = ContextVar("_splitter", default=None)
_task_tokens: ContextVar[TaskTokens | None] = ContextVar("_task_tokens", default=None)


@contextmanager
def begin_pass(batch: PackedBatch) -> Iterator[None]:
    """Begin a forward pass over a batch: inside, `current_task_tokens` describes the batch."""
    splitter = _splitter.get() if torch.is_grad_enabled() else None
    with continue_pass(None if splitter is None else TaskTokens(splitter, batch)):
        yield


@contextmanager
def continue_pass(task_tokens: TaskTokens | None) -> Iterator[None]:
    """Continue a forward pass that began before, such as one whose layers are computed again in backward."""
    token = _task_tokens.set(task_tokens)
    try:
        yield
    finally:
        _task_tokens.reset(token)


def current_task_tokens() -> TaskTokens | None:
    """Return which tokens of the current pass belong to which task; None if its gradients are not split."""
    return _task_tokens.get()
