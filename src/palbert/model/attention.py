"""Attention over packed tokens: the only place that knows where a sequence starts and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.attention.varlen import varlen_attn

from palbert.batch import PackedBatch

FLASH_WIDTH_STEP = 8
"""Flash attention takes head widths that are multiples of this."""
FLASH_WIDTH_LIMIT = 256
"""Flash attention takes head widths up to this."""
GROUP_FILL = 0.75
"""On the CPU, sequences are padded together while the shortest has this share of the longest."""
GROUP_SCORES = 2**18
"""On the CPU, and while a head has no more scores than this, which then stay in the cache."""


@dataclass(frozen=True)
class Group:
    """Sequences of similar length, padded to the longest of them."""

    sequences: int
    """How many there are."""
    length: int
    """Slots for each."""
    mask: Tensor | None
    """Added to the scores, (sequences, 1 or heads, 1 or length, length); None adds nothing."""


@dataclass(frozen=True)
class Padding:
    """Where each token goes when sequences are padded, group after group."""

    first: Tensor
    """The first slot of each token's sequence, (tokens,)."""
    length: Tensor
    """The slots of each token's sequence, (tokens,)."""
    place: Tensor
    """The place of each token in its sequence, (tokens,)."""
    groups: tuple[Group, ...]
    """The groups, in the order of their slots."""
    known_rows: dict[int, Tensor] = field(default_factory=dict)
    """The rows, by number of heads, so that only the first layer computes them."""

    @property
    def sizes(self) -> list[int]:
        """The number of slots of each group."""
        return [group.sequences * group.length for group in self.groups]

    def rows(self, heads: int) -> Tensor:
        """Return the row of each token and head, where rows are (sequence, head, slot), (tokens × heads,)."""
        if heads not in self.known_rows:
            head = torch.arange(heads, device=self.first.device)
            rows = (self.first * heads + self.place)[:, None] + self.length[:, None] * head
            self.known_rows[heads] = rows.flatten()
        return self.known_rows[heads]


@dataclass(frozen=True)
class Sequences:
    """Where the sequences of one pass lie; made once, shared by all layers."""

    starts: Tensor
    """Cumulative sequence lengths, int32, (sequences + 1,); unused slots at the end have length 0."""
    tokens: int
    """The number of tokens."""
    max_length: int
    """Length of the longest sequence; a Python number, so that nobody waits for the device."""
    bias: Tensor | None = None
    """Added to the scores of query i and key j of every sequence, (heads, max_length, max_length)."""

    @classmethod
    def of(cls, batch: PackedBatch, *, bias: Tensor | None = None) -> Sequences:
        """Take the sequences of a batch."""
        return cls(starts=batch.starts, tokens=batch.tokens, max_length=batch.max_length, bias=bias)

    @cached_property
    def padding(self) -> Padding:
        """The padding, computed when first asked for: flash attention never does."""
        return _grouped_padding(self) if self.starts.device.type == "cpu" else _single_padding(self)


def attend(query: Tensor, key: Tensor, value: Tensor, sequences: Sequences, *, dropout: float = 0.0) -> Tensor:
    """Let every token attend to the tokens of its own sequence.

    Two back ends with one result: variable-length flash attention on CUDA in half precision, and everywhere
    else, or with a bias, padding for the attention alone.

    Args:
        query: (tokens, heads, width).
        key: (tokens, heads, width).
        value: (tokens, heads, width).
        sequences: Where the sequences lie.
        dropout: Share of the attention probabilities set to zero; 0 outside of training.

    Returns:
        (tokens, heads, width).
    """
    if sequences.bias is None and _flash_takes(query):
        return _attend_flash(query, key, value, sequences, dropout)
    mixed: Tensor = _PaddedAttention.apply(query, key, value, sequences.bias, sequences.padding, dropout)  # type: ignore[no-untyped-call]
    return mixed


def dropout(values: Tensor, probability: float) -> Tensor:
    """Set a share of the values to zero and scale the others up by as much."""
    if values.device.type == "cpu" and probability > 0:
        return values * _dropout_noise(values, probability)
    return F.dropout(values, probability)


def _dropout_noise(like: Tensor, probability: float) -> Tensor:
    """Draw zeros and 1 / (1 - probability), in the shape of a tensor.

    On the CPU torch draws a 64-bit number for each value, one after the other; a transformer then spends
    more time on dropout than on attention. Here one such number serves four values, 16 bits each, so the
    probability is rounded to a multiple of 1/65536, and the scale is that of the rounded probability.
    """
    noise = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    if like.device.type != "cpu":
        return noise.bernoulli_(1 - probability).div_(1 - probability)
    dropped = min(round(probability * 2**16), 2**16 - 1)
    count = noise.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    torch.ge(bits[:count].view(noise.shape), dropped - 2**15, out=noise)
    return noise.mul_(2**16 / (2**16 - dropped))


def _flash_takes(query: Tensor) -> bool:
    return (
        query.is_cuda
        and query.dtype in (torch.bfloat16, torch.float16)
        and query.shape[-1] <= FLASH_WIDTH_LIMIT
        and _has_flash(query.device)
    )


@lru_cache
def _has_flash(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _attend_flash(query: Tensor, key: Tensor, value: Tensor, sequences: Sequences, dropout: float) -> Tensor:
    width = query.shape[-1]
    scale = width**-0.5  # of the true width: the zeros that fill it up add nothing to a score
    fill = -width % FLASH_WIDTH_STEP
    if fill:
        query, key, value = (F.pad(each, (0, fill)) for each in (query, key, value))
    starts, longest = sequences.starts, sequences.max_length
    if dropout == 0:
        mixed: Tensor = varlen_attn(query, key, value, starts, starts, longest, longest, scale=scale)  # type: ignore[assignment]
    else:
        # The private op under varlen_attn, because that one fixes dropout at 0; it has a gradient of its own.
        mixed = torch.ops.aten._flash_attention_forward(
            query, key, value, starts, starts, longest, longest, dropout, False, False, scale=scale
        )[0]
    return mixed[..., :width]


class _PaddedAttention(torch.autograd.Function):
    """Attention group by group, with the gradient by hand.

    Left to autograd, joining the groups and their gradients takes as long as the products themselves.
    Rows are (sequence, head, slot), so that each group is one batched product without a copy.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        padding: Padding,
        probability: float,
    ) -> Tensor:
        _, heads, width = query.shape
        inputs = [_pad(each, padding) for each in (query * width**-0.5, key, value)]  # (rows, width)
        mixed = torch.empty_like(inputs[0])
        weights, noises = [], []
        for group, *parts in _by_group(padding, heads, *inputs, mixed):
            weight, noise = _mix(*parts, mask=group.mask, heads=heads, probability=probability)
            weights.append(weight)
            noises.append(noise)
        ctx.save_for_backward(*inputs, *weights, *noises)
        ctx.padding, ctx.shape, ctx.bias = padding, query.shape, None if bias is None else bias.shape
        return _unpad(mixed, padding, query.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, saved = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        padding, (_, heads, width) = ctx.padding, ctx.shape
        weights, noises = saved[: len(padding.groups)], saved[len(padding.groups) :]
        outputs = [torch.empty_like(each) for each in inputs]
        to_bias = None if ctx.bias is None else gradient.new_zeros(ctx.bias)
        groups = _by_group(padding, heads, *inputs, *outputs, _pad(gradient, padding))
        for weight, noise, (group, *parts) in zip(weights, noises, groups, strict=True):
            to_scores = _unmix(*parts, weights=weight, noise=noise)
            if to_bias is not None:
                to_bias[:, : group.length, : group.length] += to_scores.view(-1, heads, *to_scores.shape[1:]).sum(0)
        outputs[0].mul_(width**-0.5)
        return *(_unpad(each, padding, ctx.shape) for each in outputs), to_bias, None, None


def _mix(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mixed: Tensor,
    *,
    mask: Tensor | None,
    heads: int,
    probability: float,
) -> tuple[Tensor, Tensor | None]:
    """Attend within one group, all (sequences × heads, length, width), into `mixed`.

    Returns:
        The attention weights, (sequences × heads, length, length), and the dropout noise on them.
    """
    scores = torch.bmm(query, key.transpose(1, 2))
    if mask is not None:
        scores.view(-1, heads, *scores.shape[1:]).add_(mask)
    weights = scores.softmax(-1)
    noise = _dropout_noise(weights, probability) if probability > 0 else None
    torch.bmm(weights if noise is None else weights * noise, value, out=mixed)
    return weights, noise


def _unmix(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    to_query: Tensor,
    to_key: Tensor,
    to_value: Tensor,
    from_mixed: Tensor,
    *,
    weights: Tensor,
    noise: Tensor | None,
) -> Tensor:
    """Take the gradient of one group back to query, key and value, written in place, and return the scores'."""
    dropped = weights if noise is None else weights * noise
    torch.bmm(dropped.transpose(1, 2), from_mixed, out=to_value)
    to_scores = torch.bmm(from_mixed, value.transpose(1, 2)).mul_(dropped)
    # The softmax's: weights × (gradient - its mean under the weights).
    to_scores.addcmul_(weights, to_scores.sum(-1, keepdim=True), value=-1)
    torch.bmm(to_scores, key, out=to_query)
    torch.bmm(to_scores.transpose(1, 2), query, out=to_key)
    return to_scores


def _pad(values: Tensor, padding: Padding) -> Tensor:
    """Lay (tokens, heads, width) out as (rows, width), zeros between sequences."""
    heads, width = values.shape[1:]
    rows = values.new_zeros(heads * sum(padding.sizes), width)
    return rows.index_copy_(0, padding.rows(heads), values.reshape(-1, width))


def _unpad(rows: Tensor, padding: Padding, shape: torch.Size) -> Tensor:
    """Take the rows of the tokens, (tokens, heads, width)."""
    return rows.index_select(0, padding.rows(shape[1])).view(shape)


def _by_group(padding: Padding, heads: int, *rows: Tensor) -> Iterator[tuple[Any, ...]]:
    """Give each group with its share of several (rows, width), as (sequences × heads, length, width)."""
    sizes = [heads * size for size in padding.sizes]
    for group, *parts in zip(padding.groups, *(torch.split(each, sizes) for each in rows), strict=True):
        yield group, *(part.view(-1, group.length, part.shape[-1]) for part in parts)


def _single_padding(sequences: Sequences) -> Padding:
    """Pad all sequences to the longest: the one layout that asks nothing of the device."""
    starts, length = sequences.starts, sequences.max_length
    count = starts.shape[0] - 1
    first = torch.arange(count, device=starts.device) * length
    # One key stays open in sequences of length 0: a row without any would be NaN.
    mask = _mask(starts.diff().clamp(min=1), length, sequences.bias)
    return _padding(sequences, first, torch.full_like(first, length), [Group(count, length, mask)])


def _grouped_padding(sequences: Sequences) -> Padding:
    """Pad sequences of similar length together: the cost of attention goes with the square of the length."""
    lengths = sequences.starts.diff()
    order = lengths.argsort(descending=True, stable=True)
    ordered: list[int] = lengths[order].tolist()
    first, padded = torch.zeros_like(order), torch.zeros_like(order)  # (sequences,)
    groups: list[Group] = []
    slot = 0
    for begin, end in _group_bounds(ordered):
        length, members = ordered[begin], order[begin:end]
        first[members] = torch.arange(slot, slot + (end - begin) * length, length)
        padded[members] = length
        slot += (end - begin) * length
        full = ordered[end - 1] == length
        mask = _bias_of(sequences.bias, length) if full else _mask(lengths[members], length, sequences.bias)
        groups.append(Group(end - begin, length, mask))
    return _padding(sequences, first, padded, groups)


def _group_bounds(ordered: Sequence[int]) -> list[tuple[int, int]]:
    """Cut lengths, longest first, into runs of similar ones; those of length 0 belong to none."""
    bounds = []
    begin = 0
    for end, length in enumerate(ordered):
        longest = ordered[begin]
        if end > begin and (length < GROUP_FILL * longest or (end - begin + 1) * longest**2 > GROUP_SCORES):
            bounds.append((begin, end))
            begin = end
        if length == 0:
            return bounds
    return [*bounds, (begin, len(ordered))] if ordered else []


def _padding(sequences: Sequences, first: Tensor, padded: Tensor, groups: list[Group]) -> Padding:
    """Spread what is known of each sequence, (sequences,), over its tokens, (tokens,)."""
    starts = sequences.starts
    token = torch.arange(sequences.tokens, dtype=starts.dtype, device=starts.device)
    owner = torch.searchsorted(starts[1:], token, right=True)
    return Padding(first[owner], padded[owner], token - starts[owner], tuple(groups))


def _bias_of(bias: Tensor | None, length: int) -> Tensor | None:
    return None if bias is None else bias.detach()[:, :length, :length]


def _mask(lengths: Tensor, length: int, bias: Tensor | None) -> Tensor:
    """Return 0 or the bias where a key is a token, and -inf where it is filling."""
    filling = torch.arange(length, device=lengths.device) >= lengths[:, None]
    inside = torch.zeros((), device=lengths.device) if bias is None else bias.detach()[:, :length, :length]
    return torch.where(filling[:, None, None, :], float("-inf"), inside)
