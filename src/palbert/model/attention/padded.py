"""Padded attention: plain products over groups of padded sequences, on any device and in any format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from palbert.model.attention.padding import Padding
from palbert.model.attention.sequences import Sequences
from palbert.model.dropout import dropout_noise


def attend_padded(query_key_value: Tensor, sequences: Sequences, dropout: float, scale: float) -> Tensor:
    """Attend as `attend` says, with padding for the attention alone."""
    with torch.autocast(query_key_value.device.type, enabled=False):  # it would mix the formats of in-place products
        mixed: Tensor = _PaddedAttention.apply(query_key_value, sequences.scores, sequences.padding, dropout, scale)  # type: ignore[no-untyped-call]
    return mixed


class _PaddedAttention(torch.autograd.Function):
    """Attention group by group, with the gradient by hand.

    Left to autograd, joining the groups and their gradients takes as long as the products themselves. Each
    group is one batch of products, (sequences × heads, length, width), without a copy.
    """

    @staticmethod
    def forward(
        ctx: Any, query_key_value: Tensor, bias: Tensor | None, padding: Padding, probability: float, scale: float
    ) -> Tensor:
        tokens, _, heads, width = query_key_value.shape
        rows = padding.rows(heads)
        inputs = query_key_value.reshape(-1, width).index_select(0, rows.take).view(3, -1, width)
        inputs[0].mul_(scale)
        mixed = torch.empty_like(inputs[0])
        saved = []
        parts = _by_group(padding, heads, inputs, mixed)
        for group, ((query, key, value), output) in zip(padding.groups, parts, strict=True):
            scores = torch.bmm(query, key.transpose(1, 2))
            if group.mask is not None:
                scores.view(-1, heads, *scores.shape[1:]).add_(group.mask)
            weights = scores.softmax(-1)
            noise = dropout_noise(weights, probability) if probability > 0 else None
            torch.bmm(weights if noise is None else weights * noise, value, out=output)
            if any(ctx.needs_input_grad):
                saved += [weights, noise]
        ctx.save_for_backward(inputs, *saved)
        ctx.padding, ctx.scale, ctx.shape = padding, scale, query_key_value.shape
        ctx.bias = None if bias is None else bias.shape
        return mixed.index_select(0, rows.put).view(tokens, heads, width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, *saved = ctx.saved_tensors
        padding, (_, _, heads, width) = ctx.padding, ctx.shape
        rows = padding.rows(heads)
        to_mixed = torch.zeros_like(inputs[0]).index_copy_(0, rows.put, gradient.reshape(-1, width))
        to_inputs = torch.empty_like(inputs)
        to_bias = None if ctx.bias is None else gradient.new_zeros(ctx.bias)
        parts = _by_group(padding, heads, inputs, to_mixed, to_inputs)
        for weights, noise, part in zip(saved[::2], saved[1::2], parts, strict=True):
            (query, key, value), to_output, (to_query, to_key, to_value) = part
            dropped = weights if noise is None else weights * noise
            torch.bmm(dropped.transpose(1, 2), to_output, out=to_value)
            to_scores = torch.bmm(to_output, value.transpose(1, 2)).mul_(dropped)
            # The softmax's gradient: weights × (gradient - its mean under the weights).
            to_scores.addcmul_(weights, to_scores.sum(-1, keepdim=True), value=-1)
            torch.bmm(to_scores, key, out=to_query)
            torch.bmm(to_scores.transpose(1, 2), query, out=to_key)
            if to_bias is not None:
                length = to_scores.shape[-1]
                to_bias[:, :length, :length] += to_scores.view(-1, heads, length, length).sum(0)
        to_inputs[0].mul_(ctx.scale)
        to_inputs = to_inputs.view(-1, width).index_select(0, rows.put_all)
        return to_inputs.view(ctx.shape), to_bias, None, None, None


def _by_group(padding: Padding, heads: int, *rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Give each group its share of several (rows, width) or (3, rows, width)."""
    sizes = [group.tokens.numel() * heads for group in padding.groups]
    for group, *parts in zip(padding.groups, *(torch.split(each, sizes, dim=-2) for each in rows), strict=True):
        length = group.tokens.shape[1]
        yield tuple(part.view(*part.shape[:-2], -1, length, part.shape[-1]) for part in parts)
