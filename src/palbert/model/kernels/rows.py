"""Inner products and weighted sums of a few long rows, each in one pass over them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PRODUCTS = 8192
"""Products that a program adds up side by side: with 8 warps, 32 for each thread."""
PROGRAMS = 1056
"""Programs of the kernel of inner products, at most: eight for each of the 132 processors of an H200."""
COLUMNS = 2048
"""Columns of a row that a program of the weighted sum works on."""


@triton.jit(do_not_specialize=["columns", "stride"])
def _inner_products(block, partial, columns, stride, ROWS: tl.constexpr, FILLED: tl.constexpr, COLUMNS: tl.constexpr):
    program = tl.program_id(0)
    rows = tl.arange(0, FILLED)
    total = tl.zeros([FILLED, FILLED, COLUMNS], dtype=tl.float32)
    for start in range(program * COLUMNS, columns, tl.num_programs(0) * COLUMNS):
        places = start + tl.arange(0, COLUMNS)
        chosen = block + rows.to(tl.int64)[:, None] * stride + places[None, :]
        values = tl.load(chosen, mask=(rows[:, None] < ROWS) & (places[None, :] < columns), other=0.0)
        total += values[:, None, :] * values[None, :, :]
    found = tl.sum(total, axis=2)
    places = program * FILLED * FILLED + rows[:, None] * FILLED + rows[None, :]
    tl.store(partial + places, found)


@triton.jit(do_not_specialize=["columns", "stride"])
def _add_up(block, weights, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    places = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = places < columns
    total = tl.zeros([COLUMNS], dtype=tl.float32)
    first = block
    for row in tl.static_range(ROWS):
        values = tl.load(block + places, mask=inside, other=0.0)
        total += tl.load(weights + row) * values
        block += stride
    tl.store(first + places, total, mask=inside)


def inner_products(block: Tensor) -> Tensor:
    """Return all inner products of some rows, (rows, columns) to (rows, rows), in float32."""
    rows, columns = block.shape
    filled = triton.next_power_of_2(rows)
    width = PRODUCTS // filled**2
    programs = min(PROGRAMS, triton.cdiv(columns, width))
    partial = torch.empty((programs, filled, filled), dtype=torch.float32, device=block.device)
    _inner_products[(programs,)](block, partial, columns, block.stride(0), rows, filled, width, num_warps=8)
    return partial.sum(0)[:rows, :rows]


def add_up(block: Tensor, weights: Tensor) -> None:
    """Replace the first of some rows by their weighted sum, (rows, columns) and (rows,)."""
    rows, columns = block.shape
    _add_up[(triton.cdiv(columns, COLUMNS),)](block, weights, columns, block.stride(0), rows, COLUMNS, num_warps=8)
