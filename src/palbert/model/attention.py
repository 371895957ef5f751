"""Attention over packed tokens: the only place that knows where a sequence starts and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from palbert.batch import PackedBatch

FLASH_WIDTH_STEP = 8
"""Flash attention takes head widths that are multiples of this."""
FLASH_WIDTH_LIMIT = 256
"""Flash attention takes head widths up to this."""
GROUP_FILL = 0.7
"""On the CPU, sequences are padded together while the shortest has this share of the longest."""


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
    """Where each token goes when sequences are padded, group after group in one row of slots."""

    slots: Tensor
    """The slot of each token, (tokens,)."""
    groups: tuple[Group, ...]
    """The groups, in the order of their slots."""

    @property
    def sizes(self) -> list[int]:
        """The number of slots of each group."""
        return [group.sequences * group.length for group in self.groups]


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
    return _attend_padded(query, key, value, sequences, dropout)


def dropout(values: Tensor, probability: float) -> Tensor:
    """Set a share of the values to zero and scale the others up by as much.

    On the CPU torch draws a 64-bit number for each value, one after the other; a transformer then spends
    more time on dropout than on attention. Here one such number serves four values, 16 bits each, so the
    probability is rounded to a multiple of 1/65536, and the scale is that of the rounded probability.
    """
    dropped = round(probability * 2**16)
    if dropped == 0:
        return values
    if values.device.type != "cpu" or dropped == 2**16:
        return F.dropout(values, probability)
    count = values.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    noise = torch.empty(values.shape, dtype=values.dtype)
    torch.ge(bits[:count].view(values.shape), dropped - 2**15, out=noise)
    return values * noise.mul_(2**16 / (2**16 - dropped))


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


def _attend_padded(query: Tensor, key: Tensor, value: Tensor, sequences: Sequences, dropout: float) -> Tensor:
    padding = sequences.padding
    groups = zip(padding.groups, *(_pad(each, padding) for each in (query, key, value)), strict=True)
    mixed = [_attend_group(q, k, v, group.mask, dropout) for group, q, k, v in groups]
    return torch.cat(mixed).index_select(0, padding.slots)


def _pad(values: Tensor, padding: Padding) -> list[Tensor]:
    """Lay out (tokens, heads, width) as (sequences, heads, length, width), one tensor a group."""
    sizes = padding.sizes
    slots = values.new_zeros(sum(sizes), *values.shape[1:]).index_copy_(0, padding.slots, values)
    return [
        part.unflatten(0, (group.sequences, group.length)).transpose(1, 2)
        for part, group in zip(torch.split(slots, sizes), padding.groups, strict=True)
    ]


def _attend_group(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, probability: float) -> Tensor:
    """Attend inside one group, (sequences, heads, length, width) to (slots, heads, width)."""
    mask = None if mask is None else mask.to(query.dtype)
    if probability == 0 or query.device.type != "cpu":
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=probability)
    else:  # what scaled_dot_product_attention does, but for the dropout, which costs it most of its time
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
        scores = scores if mask is None else scores + mask
        mixed = dropout(scores.softmax(-1), probability) @ value
    return mixed.transpose(1, 2).flatten(0, 1)


def _single_padding(sequences: Sequences) -> Padding:
    """Pad all sequences to the longest: the one layout that asks nothing of the device."""
    starts, length = sequences.starts, sequences.max_length
    first = torch.arange(starts.shape[0] - 1, device=starts.device) * length
    # One key stays open in sequences of length 0: a row without any would be NaN.
    mask = _mask(starts.diff().clamp(min=1), length, sequences.bias)
    return Padding(slots=_slots(sequences, first), groups=(Group(starts.shape[0] - 1, length, mask),))


def _grouped_padding(sequences: Sequences) -> Padding:
    """Pad sequences of similar length together; the cost of attention goes with the square of the length."""
    lengths = sequences.starts.diff()
    order = lengths.argsort(descending=True, stable=True)
    ordered: list[int] = lengths[order].tolist()
    first = torch.zeros_like(lengths)  # (sequences,)
    groups: list[Group] = []
    slot = 0
    for begin, end in _group_bounds(ordered):
        length = ordered[begin]
        members = order[begin:end]
        first[members] = slot + torch.arange(end - begin, dtype=first.dtype) * length
        slot += (end - begin) * length
        full = ordered[end - 1] == length
        mask = _bias_of(sequences.bias, length) if full else _mask(lengths[members], length, sequences.bias)
        groups.append(Group(end - begin, length, mask))
    return Padding(slots=_slots(sequences, first), groups=tuple(groups))


def _group_bounds(ordered: Sequence[int]) -> list[tuple[int, int]]:
    """Cut lengths, longest first, into runs of similar ones; those of length 0 belong to none."""
    bounds = []
    begin = 0
    for place, length in enumerate(ordered):
        if length < GROUP_FILL * ordered[begin]:
            bounds.append((begin, place))
            begin = place
        if length == 0:
            return bounds
    bounds.append((begin, len(ordered)))
    return bounds


def _slots(sequences: Sequences, first: Tensor) -> Tensor:
    """Return the slot of each token, (tokens,), given the first slot of each sequence."""
    starts = sequences.starts
    place = torch.arange(sequences.tokens, dtype=starts.dtype, device=starts.device)
    owner = torch.searchsorted(starts[1:], place, right=True)  # (tokens,)
    return (first[owner] + place - starts[owner]).long()


def _bias_of(bias: Tensor | None, length: int) -> Tensor | None:
    return None if bias is None else bias[:, :length, :length].unsqueeze(0)


def _mask(lengths: Tensor, length: int, bias: Tensor | None) -> Tensor:
    """Return 0 or the bias where a key is a token, and -inf where it is filling."""
    filling = torch.arange(length, device=lengths.device) >= lengths[:, None]
    filling = filling[:, None, None, :]  # (sequences, 1, 1, length)
    inside = torch.zeros((), device=lengths.device) if bias is None else _bias_of(bias, length)
    assert inside is not None
    return torch.where(filling, float("-inf"), inside)
