"""Attention over packed sequences, with a bias by distance and dropout, without padding in memory.

A program handles one head of one sequence and a block of its tokens; softmax is computed block by block
(arXiv:2205.14135). All sums have a fixed order: the same run gives the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from palbert.model.dropout import Seed
from palbert.model.kernels.noise import threshold
from palbert.model.kernels.tiles import (
    KEY,
    QUERY,
    VALUE,
    differentiate_block,
    draw_noise,
    load_queries,
    load_rows,
    score_block,
    seed_of,
    store_rows,
    sum_diagonals,
)

SMALL, LARGE = 32, 64
"""Tokens of a block."""
SHORT = 48
"""Average length up to which sequences are cut into small blocks: large ones would be half empty."""
FEW = 1024
"""With fewer programs than this the device is not full, and large blocks finish sooner."""


@triton.jit(do_not_specialize=["place", "longest"])
def _forward(
    inputs, bias, starts, output, logsums, seeds, place, longest, scale, factor,
    THRESHOLD: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
    BIASED: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    sequence, head, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    if block * BLOCK >= length:
        return
    STRIDE: tl.constexpr = HEADS * WIDTH
    first = head * WIDTH
    queries = block * BLOCK + tl.arange(0, BLOCK)
    query = load_rows(inputs, start, queries, length, first + QUERY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    seed = seed_of(seeds, place, sequence * HEADS + head, DROPS)
    highest = tl.full([BLOCK], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    mixed = tl.zeros([BLOCK, COLUMNS], dtype=tl.float32)
    for first_key in range(0, length, BLOCK):
        keys = first_key + tl.arange(0, BLOCK)
        key = load_rows(inputs, start, keys, length, first + KEY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
        scores = score_block(query, key, bias, head, queries, keys, length, longest, scale, BIASED)
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(highest - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        if DROPS:
            weights = weights * draw_noise(seed, queries, first_key, factor, THRESHOLD, BLOCK)
        value = load_rows(inputs, start, keys, length, first + VALUE * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        highest = higher
    store_rows(output, mixed / total[:, None], start, queries, length, first, STRIDE, WIDTH, COLUMNS)
    tl.store(logsums + (start + queries) * HEADS + head, highest + tl.log(total), mask=queries < length)


@triton.jit(do_not_specialize=["place", "longest"])
def _backward_whole(
    inputs, bias, starts, output, logsums, gradient, to_inputs, to_bias, seeds, place, longest, scale, factor,
    THRESHOLD: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
    BIASED: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of sequences that fit into one block each."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    STRIDE: tl.constexpr = HEADS * WIDTH
    first = head * WIDTH
    own = tl.arange(0, BLOCK)
    seed = seed_of(seeds, place, sequence * HEADS + head, DROPS)
    key = load_rows(inputs, start, own, length, first + KEY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    value = load_rows(inputs, start, own, length, first + VALUE * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    query, upstream, common, logsum = load_queries(
        inputs, output, gradient, logsums, start, own, length, head, HEADS, WIDTH, COLUMNS)  # fmt: skip
    dropped, to_scores = differentiate_block(
        query, key, value, upstream, common, logsum, bias, seed, head, own, 0, length, longest, scale, factor,
        THRESHOLD, BLOCK, BIASED, DROPS)  # fmt: skip
    if BIASED:
        lower, upper = sum_diagonals(to_scores, BLOCK)
        sums = to_bias + (sequence * HEADS + head) * 2 * BLOCK + own
        tl.store(sums, lower)
        tl.store(sums + BLOCK, upper)
    to_value = tl.dot(tl.trans(dropped.to(value.dtype)), upstream, input_precision="ieee")
    store_rows(to_inputs, to_value, start, own, length, first + VALUE * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    to_scores = to_scores.to(key.dtype)
    to_key = tl.dot(tl.trans(to_scores), query, input_precision="ieee") * scale
    store_rows(to_inputs, to_key, start, own, length, first + KEY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    to_query = tl.dot(to_scores, key, input_precision="ieee") * scale
    store_rows(to_inputs, to_query, start, own, length, first + QUERY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)


@triton.jit(do_not_specialize=["place", "longest"])
def _backward_blocks(
    inputs, bias, starts, output, logsums, gradient, to_inputs, to_bias, seeds, place, longest, scale, factor,
    THRESHOLD: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
    BIASED: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one block of a sequence: as keys, from all queries, then as queries, from all keys."""
    sequence, head, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    if block * BLOCK >= length:
        return
    STRIDE: tl.constexpr = HEADS * WIDTH
    first = head * WIDTH
    own = block * BLOCK + tl.arange(0, BLOCK)
    seed = seed_of(seeds, place, sequence * HEADS + head, DROPS)

    key = load_rows(inputs, start, own, length, first + KEY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    value = load_rows(inputs, start, own, length, first + VALUE * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    to_key = tl.zeros([BLOCK, COLUMNS], dtype=tl.float32)
    to_value = tl.zeros([BLOCK, COLUMNS], dtype=tl.float32)
    for first_query in range(0, length, BLOCK):
        queries = first_query + tl.arange(0, BLOCK)
        query, upstream, common, logsum = load_queries(
            inputs, output, gradient, logsums, start, queries, length, head, HEADS, WIDTH, COLUMNS)  # fmt: skip
        dropped, to_scores = differentiate_block(
            query, key, value, upstream, common, logsum, bias, seed, head, queries, block * BLOCK, length, longest,
            scale, factor, THRESHOLD, BLOCK, BIASED, DROPS)  # fmt: skip
        to_value += tl.dot(tl.trans(dropped.to(value.dtype)), upstream, input_precision="ieee")
        to_key += tl.dot(tl.trans(to_scores.to(key.dtype)), query, input_precision="ieee")
    store_rows(to_inputs, to_value, start, own, length, first + VALUE * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    store_rows(to_inputs, to_key * scale, start, own, length, first + KEY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)

    query, upstream, common, logsum = load_queries(
        inputs, output, gradient, logsums, start, own, length, head, HEADS, WIDTH, COLUMNS)  # fmt: skip
    to_query = tl.zeros([BLOCK, COLUMNS], dtype=tl.float32)
    blocks = tl.num_programs(2)
    sums = to_bias + (((sequence * blocks + block) * HEADS + head) * 2 * blocks + blocks - 1 - block) * BLOCK
    sums += tl.arange(0, BLOCK)
    carried = tl.zeros([BLOCK], dtype=tl.float32)
    for first_key in range(0, length, BLOCK):
        keys = first_key + tl.arange(0, BLOCK)
        key = load_rows(inputs, start, keys, length, first + KEY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
        value = load_rows(inputs, start, keys, length, first + VALUE * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
        dropped, to_scores = differentiate_block(
            query, key, value, upstream, common, logsum, bias, seed, head, own, first_key, length, longest, scale,
            factor, THRESHOLD, BLOCK, BIASED, DROPS)  # fmt: skip
        to_query += tl.dot(to_scores.to(key.dtype), key, input_precision="ieee")
        if BIASED:
            # The upper diagonals of a block are the lower ones of the next.
            lower, upper = sum_diagonals(to_scores, BLOCK)
            tl.store(sums + first_key, lower + carried)
            carried = upper
    if BIASED:
        tl.store(sums + tl.cdiv(length, BLOCK) * BLOCK, carried)
    store_rows(to_inputs, to_query * scale, start, own, length, first + QUERY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)


class Tiling(NamedTuple):
    """How a call is cut into programs."""

    longest: int
    """Tokens of the longest sequence."""
    block: int
    """Tokens of a block."""
    blocks: int
    """Blocks of the longest sequence."""
    columns: int
    """Width of a head, rounded up to a power of two; tensor cores need at least 16."""

    @classmethod
    def of(cls, inputs: Tensor, sequences: int, longest: int) -> Tiling:
        """Choose the blocks."""
        tokens, _, heads, width = inputs.shape
        are_short = tokens <= SHORT * sequences and sequences * heads >= FEW
        # The sums for the bias take memory in proportion to blocks times distances, so there are few blocks.
        block = SMALL if longest <= SMALL or (are_short and longest <= 2 * LARGE) else LARGE
        return cls(longest, block, triton.cdiv(longest, block), max(16, int(triton.next_power_of_2(width))))

    @property
    def options(self) -> dict[str, int]:
        """Compiler options: more warps for more values; prefetching does not pay off with so few blocks."""
        warps = 8 if self.columns > 64 else 2 if self.block * self.columns <= 32 * 32 else 4
        return {"num_warps": warps, "num_stages": 1}


def attend(
    query_key_value: Tensor,
    starts: Tensor,
    longest: int,
    *,
    bias: Tensor | None = None,
    probability: float = 0.0,
    seed: Seed | None = None,
    scale: float | None = None,
) -> Tensor:
    """Let every token attend to the tokens of its own sequence.

    Args:
        query_key_value: (tokens, 3, heads, width).
        starts: Cumulative sequence lengths, int32, (sequences + 1,).
        longest: Length of the longest sequence, or more.
        bias: Added to scores by distance from query to key, from 1 - longest to longest - 1, (heads, distances).
        probability: Share of the attention probabilities set to zero.
        seed: Seeds their choice; without one nothing is dropped.
        scale: Factor on the scores; width ** -0.5 unless given.

    Returns:
        (tokens, heads, width).
    """
    mixed: Tensor = _Attention.apply(query_key_value, bias, starts, longest, probability, seed, scale)  # type: ignore[no-untyped-call]
    return mixed


class _Attention(torch.autograd.Function):
    """Save inputs and output for the backward pass, with the logarithm of each query's sum."""

    @staticmethod
    def forward(
        ctx: Any,
        query_key_value: Tensor,
        bias: Tensor | None,
        starts: Tensor,
        longest: int,
        probability: float,
        seed: Seed | None,
        scale: float | None,
    ) -> Tensor:
        inputs = query_key_value.contiguous()
        tokens, _, heads, width = inputs.shape
        tiling = Tiling.of(inputs, len(starts) - 1, longest)
        output = inputs.new_empty((tokens, heads, width))
        logsums = inputs.new_empty((tokens, heads), dtype=torch.float32)
        # Without a bias or dropout nothing is read through their pointers, but there must be some.
        scores = logsums if bias is None else bias.contiguous()
        numbers, place = (logsums, 0) if seed is None else seed
        scale = width**-0.5 if scale is None else scale
        ctx.numbers = (place, longest, scale, 1 / (1 - probability), threshold(probability), heads, width)
        ctx.tiling, ctx.choices = tiling, (bias is not None, seed is not None)
        _forward[(len(starts) - 1, heads, tiling.blocks)](
            inputs, scores, starts, output, logsums, numbers, *ctx.numbers, tiling.columns, tiling.block, *ctx.choices,
            **tiling.options,
        )  # fmt: skip
        ctx.save_for_backward(inputs, scores, starts, output, logsums, numbers)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, scores, starts, output, logsums, numbers = ctx.saved_tensors
        heads, tiling = inputs.shape[2], ctx.tiling
        to_inputs = torch.empty_like(inputs)
        biased, _ = ctx.choices
        sequences = len(starts) - 1
        sums = (sequences * tiling.blocks, heads, 2 * tiling.blocks * tiling.block) if biased else (0,)
        # With several blocks, each program reaches only some of the distances.
        to_distances = (torch.empty if tiling.blocks == 1 else torch.zeros)(sums, device=inputs.device)
        kernel = _backward_whole if tiling.blocks == 1 else _backward_blocks
        kernel[(sequences, heads, tiling.blocks)](
            inputs, scores, starts, output, logsums, gradient.contiguous(), to_inputs, to_distances, numbers,
            *ctx.numbers, tiling.columns, tiling.block, *ctx.choices, **tiling.options,
        )  # fmt: skip
        to_bias = None
        if biased:
            first = tiling.blocks * tiling.block - tiling.longest  # distances that only blocks have
            to_bias = to_distances.sum(0)[:, first : first + scores.shape[1]].to(scores.dtype)
        return to_inputs, to_bias, None, None, None, None, None
