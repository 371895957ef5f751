"""Embedding tables: their gradients can be split by task, and those of small tables are reproducible."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from palbert.model.split import TaskTokens, current_task_tokens


class Table(nn.Embedding):
    """torch's embedding with uninitialised weights.

    Args:
        rows: Number of rows.
        width: Width of a row.
    """

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(rows, width, _weight=torch.empty(rows, width))

    def forward(self, rows: Tensor) -> Tensor:
        """Look rows up, (tokens,) to (tokens, width)."""
        task_tokens = current_task_tokens()
        if task_tokens is None:
            return super().forward(rows)
        found: Tensor = _Embed.apply(self.weight, rows, task_tokens)  # type: ignore[no-untyped-call]
        return found


def look_up(table: Tensor, rows: Tensor) -> Tensor:
    """Look rows up in a table with few rows, (rows, width) and (tokens,) to (tokens, width)."""
    if not torch.is_grad_enabled():
        return table.index_select(0, rows)
    found: Tensor = _LookUp.apply(table, rows, current_task_tokens())  # type: ignore[no-untyped-call]
    return found


def look_up_each(table: Tensor, rows: Tensor, task_tokens: TaskTokens) -> tuple[Tensor, ...]:
    """Look the same rows up once for each span of a pass; each span's gradient is added to its own task's."""
    found: tuple[Tensor, ...] = _LookUpEach.apply(table, rows, task_tokens)  # type: ignore[no-untyped-call]
    return found


class _LookUp(torch.autograd.Function):
    """An embedding whose gradient is a product.

    On CUDA, torch adds up the gradient of an embedding in no fixed order when thousands of tokens share a row, as they
    do with token types: two runs with one seed then differ in the last bits.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, task_tokens: Any) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.table, ctx.task_tokens = table, task_tokens
        return table.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        [rows] = ctx.saved_tensors
        chosen = _chosen(ctx.table, rows, gradient)
        if ctx.task_tokens is None:
            return torch.mm(chosen, gradient), None, None
        if ctx.task_tokens.is_collecting:
            ctx.task_tokens.add_products(ctx.table, chosen.t(), gradient)
        return None, None, None


class _Embed(_LookUp):
    """The same for tables with many rows, split by task; each task's gradient is torch's own."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        [rows] = ctx.saved_tensors
        if ctx.task_tokens.is_collecting:
            ctx.task_tokens.add_lookups(ctx.table, gradient, rows)
        return None, None, None


class _LookUpEach(_LookUp):
    """The same rows for every span."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, task_tokens: Any) -> tuple[Tensor, ...]:  # type: ignore[override]
        found = _LookUp.forward(ctx, table, rows, task_tokens)
        return tuple(found.clone() for _ in task_tokens.spans)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        [rows] = ctx.saved_tensors
        if ctx.task_tokens.is_collecting:
            chosen = _chosen(ctx.table, rows, gradients[0])
            for (task, _), gradient in zip(ctx.task_tokens.spans, gradients, strict=True):
                ctx.task_tokens.add(ctx.table, task, torch.mm(chosen, gradient))
        return None, None, None


def _chosen(table: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """Return 1 where a row of a table was looked up, and 0 elsewhere, (table's rows, tokens)."""
    return (torch.arange(len(table), device=rows.device)[:, None] == rows).to(like.dtype)
