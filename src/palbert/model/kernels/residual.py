"""norm(residual + dropout(update)) in one kernel, and its gradient in one kernel and a sum."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from palbert.model.dropout import Seed
from palbert.model.kernels.noise import is_kept, threshold
from palbert.model.split import current_task_tokens

ROWS = 4
"""Rows that a program works on at once, one per warp."""
PROGRAMS = 512
"""Maximum number of programs of the backward kernel; each writes one row of partial sums for the norm's parameters."""


@triton.jit(do_not_specialize=["place", "tokens"])
def _forward(
    residual, update, weight, bias, output, total, means, inverses, seeds, place, tokens, epsilon, factor,
    THRESHOLD: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DROPS: tl.constexpr, SAVES: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    inside = (rows[:, None] < tokens) & (columns[None, :] < SIZE)
    places = rows[:, None] * SIZE + columns[None, :]
    values = tl.load(update + places, mask=inside, other=0.0).to(tl.float32)
    if DROPS:
        kept = is_kept(tl.load(seeds + place), rows * (COLUMNS // 4), THRESHOLD, ROWS, COLUMNS)
        values = tl.where(kept, values * factor, 0.0)
    values = values + tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
    rounded = values.to(total.dtype.element_ty)
    values = rounded.to(tl.float32)  # as backward will see it
    mean = tl.sum(values, axis=1) / SIZE
    centred = tl.where(inside, values - mean[:, None], 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / SIZE + epsilon)
    scale = tl.load(weight + columns, mask=columns < SIZE, other=0.0).to(tl.float32)
    shift = tl.load(bias + columns, mask=columns < SIZE, other=0.0).to(tl.float32)
    normed = centred * inverse[:, None] * scale[None, :] + shift[None, :]
    tl.store(output + places, normed.to(output.dtype.element_ty), mask=inside)
    if SAVES:
        tl.store(total + places, rounded, mask=inside)
        tl.store(means + rows, mean, mask=rows < tokens)
        tl.store(inverses + rows, inverse, mask=rows < tokens)


@triton.jit(do_not_specialize=["place", "tokens"])
def _backward(
    gradient, total, means, inverses, weight, to_residual, to_update, partial, seeds, bounds, place, tokens, factor,
    THRESHOLD: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DROPS: tl.constexpr, APART: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    begin = program * ROWS
    if SPLIT:  # this program belongs to one span of the tokens
        begin += tl.load(bounds + 2 * tl.program_id(1))
        tokens = tl.load(bounds + 2 * tl.program_id(1) + 1)
    columns = tl.arange(0, COLUMNS)
    scale = tl.load(weight + columns, mask=columns < SIZE, other=0.0).to(tl.float32)
    to_scale = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    to_shift = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(begin, tokens, tl.num_programs(0) * ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < tokens) & (columns[None, :] < SIZE)
        places = rows[:, None] * SIZE + columns[None, :]
        upstream = tl.load(gradient + places, mask=inside, other=0.0).to(tl.float32)
        values = tl.load(total + places, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(means + rows, mask=rows < tokens, other=0.0)
        inverse = tl.load(inverses + rows, mask=rows < tokens, other=0.0)
        normed = tl.where(inside, (values - mean[:, None]) * inverse[:, None], 0.0)
        to_scale += upstream * normed
        to_shift += upstream
        scaled = upstream * scale[None, :]
        common = tl.sum(scaled, axis=1) / SIZE
        along = tl.sum(scaled * normed, axis=1) / SIZE
        found = (scaled - common[:, None] - normed * along[:, None]) * inverse[:, None]
        tl.store(to_residual + places, found.to(to_residual.dtype.element_ty), mask=inside)
        if APART:
            if DROPS:
                kept = is_kept(tl.load(seeds + place), rows * (COLUMNS // 4), THRESHOLD, ROWS, COLUMNS)
                found = tl.where(kept, found * factor, 0.0)
            tl.store(to_update + places, found.to(to_update.dtype.element_ty), mask=inside)
    places = partial + (tl.program_id(1) * tl.num_programs(0) + program) * 2 * SIZE + columns
    tl.store(places, tl.sum(to_scale, axis=0), mask=columns < SIZE)
    tl.store(places + SIZE, tl.sum(to_shift, axis=0), mask=columns < SIZE)


def add_and_norm(
    residual: Tensor,
    update: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    epsilon: float,
    probability: float = 0.0,
    seed: Seed | None = None,
) -> Tensor:
    """Return the norm of the sum, (tokens, hidden), in the update's format; without a seed nothing is dropped."""
    # Asked here, because gradients are always disabled inside of a Function.
    inputs = (residual, update, weight, bias)
    saves = torch.is_grad_enabled() and any(each.requires_grad for each in inputs)
    output: Tensor = _AddAndNorm.apply(*inputs, epsilon, probability, seed, saves, current_task_tokens())  # type: ignore[no-untyped-call]
    return output


class _AddAndNorm(torch.autograd.Function):
    """Save the rounded sum for the backward pass, with its mean and its inverse deviation."""

    @staticmethod
    def forward(
        ctx: Any,
        residual: Tensor,
        update: Tensor,
        weight: Tensor,
        bias: Tensor,
        epsilon: float,
        probability: float,
        seed: Seed | None,
        saves: bool,
        task_tokens: Any,
    ) -> Tensor:
        residual, update = residual.contiguous(), update.contiguous()
        tokens, size = update.shape
        output = torch.empty_like(update)
        kept = tokens if saves else 0
        total = update.new_empty((kept, size), dtype=torch.promote_types(residual.dtype, update.dtype))
        means = update.new_empty(kept, dtype=torch.float32)
        inverses = torch.empty_like(means)
        # Without dropout nothing is read through the seeds' pointer, but there must be one.
        numbers, place = (means, 0) if seed is None else seed
        ctx.noise = (place, 1 / (1 - probability), threshold(probability))
        place, factor, limit = ctx.noise
        _forward[(triton.cdiv(tokens, ROWS),)](
            residual, update, weight, bias, output, total, means, inverses, numbers, place, tokens, epsilon, factor,
            limit, size, ROWS, _columns(size), seed is not None, saves, num_warps=ROWS,
        )  # fmt: skip
        if saves:
            ctx.save_for_backward(total, means, inverses, weight, numbers)
            ctx.drops = seed is not None
            ctx.formats = residual.dtype, update.dtype, weight.dtype, bias.dtype
            ctx.parameters, ctx.task_tokens = (weight, bias), task_tokens
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        total, means, inverses, weight, numbers = ctx.saved_tensors
        place, factor, limit = ctx.noise
        residual_format, update_format, weight_format, bias_format = ctx.formats
        tokens, size = total.shape
        to_residual = torch.empty_like(total, dtype=residual_format)
        apart = ctx.drops or residual_format != update_format  # else both have the same gradient
        to_update = torch.empty_like(total, dtype=update_format) if apart else to_residual
        spans = [slice(0, tokens)] if ctx.task_tokens is None else [span for _, span in ctx.task_tokens.spans]
        programs = min(PROGRAMS, triton.cdiv(max(span.stop - span.start for span in spans), ROWS))
        partial = total.new_empty((len(spans), programs, 2, size), dtype=torch.float32)
        bounds = means if ctx.task_tokens is None else ctx.task_tokens.bounds
        _backward[(programs, len(spans))](
            gradient.contiguous(), total, means, inverses, weight, to_residual, to_update, partial, numbers, bounds,
            place, tokens, factor, limit, size, ROWS, _columns(size), ctx.drops, apart, ctx.task_tokens is not None,
            num_warps=ROWS,
        )  # fmt: skip
        to_parameters: tuple[Tensor | None, Tensor | None] = (None, None)
        if any(ctx.needs_input_grad[2:4]) and ctx.task_tokens is None:
            to_weight, to_bias = partial[0].sum(0)
            to_parameters = to_weight.to(weight_format), to_bias.to(bias_format)
        elif any(ctx.needs_input_grad[2:4]) and ctx.task_tokens.is_collecting:
            for parameter, found in zip(ctx.parameters, partial.sum(1).unbind(1), strict=True):
                ctx.task_tokens.add_each(parameter, found)
        return to_residual, to_update, *to_parameters, None, None, None, None, None


def _columns(size: int) -> int:
    """Return the width of a block that holds a row: blocks in Triton are powers of two."""
    return max(16, int(triton.next_power_of_2(size)))
