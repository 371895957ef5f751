"""Look rows of a small table up, with a gradient that is the same each time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def look_up(table: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a table with few rows, (rows, width) and (tokens,) to (tokens, width)."""
    found: Tensor = _LookUp.apply(table, rows)  # type: ignore[no-untyped-call]
    return found


class _LookUp(torch.autograd.Function):
    """An embedding whose gradient is a product.

    On CUDA, torch adds up the gradient of an embedding in no fixed order when thousands of tokens share a row, as they
    do with token types: two runs of one seed then part in the last bits.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.count = len(table)
        return table.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        [rows] = ctx.saved_tensors
        chosen = torch.arange(ctx.count, device=rows.device)[:, None] == rows  # (table's rows, tokens)
        return torch.mm(chosen.to(gradient.dtype), gradient), None
