"""Padding: groups of sequences of similar length, padded for attention only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

GROUP_FILL = 0.6
"""On the CPU, sequences at least this share as long as the longest of a group are padded together with it."""
GROUP_SCORES = 2**18
"""On the CPU, scores per head that a group of several sequences may have; bounds the memory."""


class PaddedGroup(NamedTuple):
    """Sequences that are padded to one length."""

    tokens: Tensor
    """The token in each slot, (sequences, length); filling repeats the last token of the sequence."""
    filling: Tensor
    """Where a slot is filling, (sequences, length)."""
    mask: Tensor | None
    """Added to the scores, (sequences or 1, heads or 1, length or 1, length); None adds nothing."""


class PaddedRows(NamedTuple):
    """Where each head of each token lies among the padded rows, (sequence, head, slot) within a group."""

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
    groups: Sequence[PaddedGroup]
    """The groups, in the order of their slots."""
    known_rows: dict[int, PaddedRows] = field(default_factory=dict)
    """Rows by number of heads, computed by the first layer."""

    def rows(self, heads: int) -> PaddedRows:
        """Return the padded row of each head of each token."""
        if heads not in self.known_rows:
            self.known_rows[heads] = self._rows(heads)
        return self.known_rows[heads]

    def _rows(self, heads: int) -> PaddedRows:
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
        return PaddedRows(torch.cat([query, query + heads, query + 2 * heads]), put, put_all)


def pad_group(
    starts: Tensor, lengths: Tensor, longest: int, *, full: bool, tokens: int, bias: Tensor | None, window: int
) -> PaddedGroup:
    """Pad sequences to one length.

    Args:
        starts: First token of each sequence.
        lengths: Length of each sequence.
        longest: What they are padded to.
        full: Whether all of them have that length.
        tokens: Tokens of the whole pass.
        bias: Of query i and key j, (heads, i, j), for at least the longest length.
        window: Tokens on each side that a token attends to; 0 for all.
    """
    slot = torch.arange(longest, device=starts.device)
    lengths = lengths[:, None]
    places = starts[:, None] + slot.minimum(lengths - 1)
    filling = slot >= lengths
    closed = None
    if not full:
        # A sequence of length 0 keeps one key: scores that are all -inf would give NaN.
        closed = (slot >= lengths.clamp(min=1))[:, None, None]
    if window:
        # Queries that are filling keep all keys: far from the last real token they would have none, and give NaN.
        far = (slot[:, None] - slot).abs() > window
        closed = far[None, None] if closed is None else closed | (far & ~filling[:, :, None])[:, None]
    mask = None if bias is None else bias[None, :, :longest, :longest]
    if closed is not None:
        mask = torch.where(closed, float("-inf"), 0.0 if mask is None else mask)
    return PaddedGroup(places.clamp(0, tokens - 1), filling, mask)


def similar_lengths(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut lengths, longest first, into runs of similar ones; those of length 0 are left out."""
    begin = 0
    for end, length in enumerate([*lengths, 0]):
        longest = lengths[begin] if end else 0
        if length < GROUP_FILL * longest or (end - begin + 1) * longest**2 > GROUP_SCORES:
            yield begin, end
            begin = end
        if length == 0:
            return
