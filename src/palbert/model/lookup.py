"""Look rows of tables up; the gradient of a small table is the same each time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from palbert.model.split import Shares, shares


def embed(table: nn.Embedding, rows: Tensor) -> Tensor:
    """Return rows of a table, (rows, width) and (tokens,) to (tokens, width)."""
    present = shares()
    found: Tensor = table(rows) if present is None else _Embed.apply(table.weight, rows, present)  # type: ignore[no-untyped-call]
    return found


def look_up(table: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a table with few rows, (rows, width) and (tokens,) to (tokens, width)."""
    found: Tensor = _LookUp.apply(table, rows, shares())  # type: ignore[no-untyped-call]
    return found


def look_up_each(table: Tensor, rows: Tensor, shares: Shares) -> tuple[Tensor, ...]:
    """Return rows of a table once for each stretch of a pass, whose task then has what it adds to the gradient."""
    found: tuple[Tensor, ...] = _LookUpEach.apply(table, rows, shares)  # type: ignore[no-untyped-call]
    return found


class _LookUp(torch.autograd.Function):
    """An embedding whose gradient is a product.

    On CUDA, torch adds up the gradient of an embedding in no fixed order when thousands of tokens share a row, as they
    do with token types: two runs of one seed then part in the last bits.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, shares: Any) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.table, ctx.shares = table, shares
        return table.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        [rows] = ctx.saved_tensors
        chosen = _chosen(ctx.table, rows, gradient)
        if ctx.shares is None:
            return torch.mm(chosen, gradient), None, None
        if ctx.shares.wanted:
            ctx.shares.add_products(ctx.table, chosen.t(), gradient)
        return None, None, None


class _Embed(_LookUp):
    """The same for tables with many rows, split by task; each task's gradient is torch's own."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        [rows] = ctx.saved_tensors
        if ctx.shares.wanted:
            ctx.shares.add_lookups(ctx.table, gradient, rows)
        return None, None, None


class _LookUpEach(_LookUp):
    """The same rows for every stretch."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, shares: Any) -> tuple[Tensor, ...]:  # type: ignore[override]
        found = _LookUp.forward(ctx, table, rows, shares)
        return tuple(found.clone() for _ in shares.spans)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        [rows] = ctx.saved_tensors
        if ctx.shares.wanted:
            chosen = _chosen(ctx.table, rows, gradients[0])
            for (task, _), gradient in zip(ctx.shares.spans, gradients, strict=True):
                ctx.shares.add(ctx.table, task, torch.mm(chosen, gradient))
        return None, None, None


def _chosen(table: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """Return 1 where a row of a table was looked up, and 0 elsewhere, (table's rows, tokens)."""
    return (torch.arange(len(table), device=rows.device)[:, None] == rows).to(like.dtype)
