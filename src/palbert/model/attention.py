"""Attention over packed tokens: the only place that knows where a sequence starts and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from palbert.batch import PackedBatch, Part
from palbert.model.dropout import Seeds, dropout_noise
from palbert.model.kernels import has_triton

FLASH_WIDTH_STEP = 8
"""Flash attention takes head widths that are multiples of this."""
FLASH_WIDTH_LIMIT = 256
"""Flash attention takes head widths up to this."""
KERNEL_WIDTH_LIMIT = 128
"""The Triton kernel takes head widths up to this: a program holds several blocks of tokens."""
SHORT = 128
"""Tokens of a sequence, on average, up to which the kernel is quicker than flash attention with its large blocks."""
GROUP_FILL = 0.6
"""On the CPU, sequences at least this share as long as the longest of a group are padded with it."""
GROUP_SCORES = 2**18
"""On the CPU, scores that a group of several sequences may have for each head; bounds the memory."""


class Group(NamedTuple):
    """Sequences that are padded to one length."""

    tokens: Tensor
    """The token in each slot, (sequences, length); filling repeats the last one of the sequence."""
    filling: Tensor
    """Where a slot is filling, (sequences, length)."""
    mask: Tensor | None
    """Added to the scores, (sequences or 1, heads or 1, length or 1, length); None adds nothing."""


class Rows(NamedTuple):
    """Where the width of each head of each token is found, with rows as (sequence, head, slot) in a group."""

    take: Tensor
    """Row in (tokens, 3, heads) for each of the query rows, then the key rows, then the value rows."""
    put: Tensor
    """Row for each of (tokens, heads)."""
    put_all: Tensor
    """Row for each of (tokens, 3, heads), in the order of `take`."""


@dataclass(frozen=True)
class Padding:
    """How the sequences of one pass are padded, group after group."""

    tokens: int
    """The number of tokens."""
    groups: Sequence[Group]
    """The groups, in the order of their slots."""
    known_rows: dict[int, Rows] = field(default_factory=dict)
    """Rows by number of heads: the first layer computes them for all."""

    def rows(self, heads: int) -> Rows:
        """Return where each head of each token goes."""
        if heads not in self.known_rows:
            self.known_rows[heads] = self._rows(heads)
        return self.known_rows[heads]

    def _rows(self, heads: int) -> Rows:
        device = self.groups[0].tokens.device
        head = torch.arange(heads, device=device)[:, None]
        none = self.tokens * heads  # where filling goes
        source, target = [], []
        for group in self.groups:
            token = group.tokens[:, None]  # (sequences, 1, length)
            source.append((token * 3 * heads + head).flatten())
            target.append(torch.where(group.filling[:, None], none, token * heads + head).flatten())
        query = torch.cat(source)
        rows = query.shape[0]
        put = torch.empty(none + 1, dtype=torch.int64, device=device)
        put = put.scatter_(0, torch.cat(target), torch.arange(rows, device=device))[:-1]
        blocks = torch.arange(0, 3 * rows, rows, device=device)[:, None]
        put_all = (put.view(-1, 1, heads) + blocks).flatten()
        return Rows(torch.cat([query, query + heads, query + 2 * heads]), put, put_all)


@dataclass(frozen=True)
class Sequences:
    """Where the sequences of one pass lie, and the seeds of its kernels; made once, shared by all layers."""

    starts: Tensor
    """Cumulative sequence lengths, int32, (sequences + 1,); unused slots at the end have length 0."""
    tokens: int
    """The number of tokens."""
    max_length: int
    """Length of the longest sequence; a Python number, so that nobody waits for the device."""
    bias: Tensor | None = None
    """Added to scores by distance from query to key, from 1 - max_length to max_length - 1, (heads, distances)."""
    seeds: Seeds = field(default_factory=Seeds)
    """Where kernels that drop out take their random numbers from."""
    stretches: Sequence[Sequences] = ()
    """The same sequences in stretches with a bias each, where the gradients of these are wanted one by one."""

    @classmethod
    def of(cls, batch: PackedBatch, *, parts: Sequence[Part] = (), bias: Tensor | None = None) -> Sequences:
        """Take the sequences of a batch, or of parts of it that follow each other."""
        if not parts:
            return cls(batch.starts, tokens=batch.tokens, max_length=batch.max_length, bias=bias)
        first, last = parts[0], parts[-1]
        starts = batch.starts[first.slots.start : last.slots.stop + 1]
        starts = starts - starts[0] if first.tokens.start else starts
        return cls(starts, tokens=last.tokens.stop - first.tokens.start, max_length=batch.max_length, bias=bias)

    @property
    def are_short(self) -> bool:
        """Whether blocks for long sequences would be mostly empty."""
        return self.tokens <= SHORT * (len(self.starts) - 1)

    @cached_property
    def scores(self) -> Tensor | None:
        """The bias of query i and key j, (heads, max_length, max_length); padded attention alone asks for it."""
        if self.bias is None:
            return None
        # Windows of `max_length` distances: the first is the last query's, so the order is turned around.
        return self.bias.unfold(1, self.max_length, 1).flip(1)

    @cached_property
    def padding(self) -> Padding:
        """The padding, computed when first asked for: flash attention never does."""
        starts, lengths = self.starts[:-1], self.starts.diff()
        if starts.device.type != "cpu":  # one group, because only the device knows the lengths
            return Padding(self.tokens, [self._group(starts, lengths, self.max_length, full=False)])
        lengths, order = lengths.sort(descending=True, stable=True)
        starts, known = starts[order], lengths.tolist()
        groups = []
        for begin, end in _similar(known):
            full = known[end - 1] == known[begin]
            groups.append(self._group(starts[begin:end], lengths[begin:end], known[begin], full=full))
        return Padding(self.tokens, groups)

    def _group(self, starts: Tensor, lengths: Tensor, length: int, *, full: bool) -> Group:
        """Pad some sequences to one length; `full` if all of them have it."""
        slot = torch.arange(length, device=starts.device)
        lengths = lengths[:, None]
        tokens = starts[:, None] + slot.minimum(lengths - 1)
        mask = None if self.scores is None else self.scores.detach()[None, :, :length, :length]
        if not full:
            # A sequence of length 0 keeps one key: scores that are all -inf would give NaN.
            closed = (slot >= lengths.clamp(min=1))[:, None, None]
            mask = torch.where(closed, float("-inf"), 0.0 if mask is None else mask)
        return Group(tokens.clamp(0, self.tokens - 1), slot >= lengths, mask)


def attend(
    query_key_value: Tensor, sequences: Sequences, *, dropout: float = 0.0, scale: float | None = None
) -> Tensor:
    """Let every token attend to the tokens of its own sequence.

    Three back ends with one result: on CUDA in half precision a Triton kernel for short sequences or with a bias,
    and torch's variable-length flash attention for long ones; everywhere else padding for the attention alone.

    Args:
        query_key_value: (tokens, 3, heads, width).
        sequences: Where the sequences lie.
        dropout: Share of the attention probabilities set to zero; 0 outside of training.
        scale: Of the scores; width ** -0.5 unless given, as for heads that zeros fill up.

    Returns:
        (tokens, heads, width).
    """
    if sequences.stretches:
        pieces = torch.split(query_key_value, [stretch.tokens for stretch in sequences.stretches])
        found = zip(pieces, sequences.stretches, strict=True)
        return torch.cat([attend(piece, stretch, dropout=dropout, scale=scale) for piece, stretch in found])
    scale = query_key_value.shape[-1] ** -0.5 if scale is None else scale
    if (sequences.bias is not None or sequences.are_short) and _kernel_takes(query_key_value):
        return _attend_kernel(query_key_value, sequences, dropout, scale)
    if sequences.bias is None and _flash_takes(query_key_value):
        return _attend_flash(query_key_value, sequences, dropout, scale)
    return _attend_padded(query_key_value, sequences, dropout, scale)


def _flash_takes(query_key_value: Tensor) -> bool:
    return _is_half_on_gpu(query_key_value) and query_key_value.shape[-1] <= FLASH_WIDTH_LIMIT


def _kernel_takes(query_key_value: Tensor) -> bool:
    return (
        _is_half_on_gpu(query_key_value)
        and query_key_value.shape[-1] <= KERNEL_WIDTH_LIMIT
        and 0 < query_key_value.numel() < 2**31  # its places are 32-bit numbers
        and has_triton()
    )


def _is_half_on_gpu(values: Tensor) -> bool:
    return values.is_cuda and values.dtype in (torch.bfloat16, torch.float16) and _has_flash(values.device)


@lru_cache
def _has_flash(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _attend_flash(query_key_value: Tensor, sequences: Sequences, dropout: float, scale: float) -> Tensor:
    width = query_key_value.shape[-1]
    fill = -width % FLASH_WIDTH_STEP
    query, key, value = (F.pad(query_key_value, (0, fill)) if fill else query_key_value).unbind(1)
    starts, longest = sequences.starts, sequences.max_length
    if dropout == 0:
        # Imported here: it takes torch's compiler along, as long again as all of torch.
        from torch.nn.attention.varlen import varlen_attn

        mixed: Tensor = varlen_attn(query, key, value, starts, starts, longest, longest, scale=scale)  # type: ignore[assignment]
    else:
        # The private op under varlen_attn, because that one fixes dropout at 0; it has a gradient of its own.
        mixed = torch.ops.aten._flash_attention_forward(
            query, key, value, starts, starts, longest, longest, dropout, False, False, scale=scale
        )[0]
    return mixed[..., :width]


def _attend_kernel(query_key_value: Tensor, sequences: Sequences, dropout: float, scale: float) -> Tensor:
    # Imported here: it needs Triton, which comes with torch for CUDA only.
    from palbert.model.kernels import attention as kernel

    seed = sequences.seeds.next(query_key_value.device) if dropout > 0 else None
    starts, longest, bias = sequences.starts, sequences.max_length, sequences.bias
    return kernel.attend(query_key_value, starts, longest, bias=bias, probability=dropout, seed=seed, scale=scale)


def _attend_padded(query_key_value: Tensor, sequences: Sequences, dropout: float, scale: float) -> Tensor:
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


def _similar(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut lengths, longest first, into runs of similar ones; those of length 0 belong to none."""
    begin = 0
    for end, length in enumerate([*lengths, 0]):
        longest = lengths[begin] if end else 0
        if length < GROUP_FILL * longest or (end - begin + 1) * longest**2 > GROUP_SCORES:
            yield begin, end
            begin = end
        if length == 0:
            return
