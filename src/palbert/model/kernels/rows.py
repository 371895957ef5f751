"""Inner products and weighted sums of a few long rows, each in one pass over them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 4096
"""Columns of every row that a program works on."""


@triton.jit  # four numbers are read at once if strides and ends are multiples of 16, as most are
def _inner_products(block, partial, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    places = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = places < columns
    partial += tl.program_id(0) * ROWS * ROWS
    for i in tl.static_range(ROWS):
        one = tl.load(block + places, mask=inside, other=0.0)
        other = block
        for j in tl.static_range(i, ROWS):
            found = tl.sum(one * tl.load(other + places, mask=inside, other=0.0))  # the first level of cache has it
            tl.store(partial + i * ROWS + j, found)
            tl.store(partial + j * ROWS + i, found)
            other += stride
        block += stride


@triton.jit  # four numbers are read at once if strides and ends are multiples of 16, as most are
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
    programs = triton.cdiv(columns, COLUMNS)
    partial = torch.empty((programs, rows, rows), dtype=torch.float32, device=block.device)
    _inner_products[(programs,)](block, partial, columns, block.stride(0), rows, COLUMNS, num_warps=8)
    return partial.sum(0)


def add_up(block: Tensor, weights: Tensor) -> None:
    """Replace the first of some rows by their weighted sum, (rows, columns) and (rows,)."""
    rows, columns = block.shape
    _add_up[(triton.cdiv(columns, COLUMNS),)](block, weights, columns, block.stride(0), rows, COLUMNS, num_warps=8)
