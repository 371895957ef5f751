"""Collate: pack rows of tokens into one batch. Training and inference both use this function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palbert.batch import PackedBatch, Part
from palbert.data.ragged import Ragged, offsets_of, ranges
from palbert.data.tokenizer import Template

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Filling:
    """A round size that a part is padded to, by sequences after its own that no loss looks at."""

    tokens: int
    """Tokens of the part, padding included."""
    slots: int
    """How many sequences may be padding; those that are not needed are empty."""
    longest: int
    """Upper bound on the tokens of a sequence, the set's own or padding."""


@dataclass(frozen=True)
class Portion:
    """Rows of one training set for a batch; when predicting, rows of one task."""

    name: str
    """Names the part in the batch: the name of the set, or of the task when predicting."""
    task: str
    """The task that the rows belong to."""
    tokens: tuple[Ragged, ...]
    """Token ids of each text column, without special tokens."""
    rows: NDArray[Any]
    """Which rows to take."""
    max_length: int
    """Tokens per sequence, special tokens included."""
    siamese: bool = False
    """Whether pairs are two sequences each, all first ones before all second ones. Triplets are always three."""
    labels: NDArray[Any] | None = None
    """Labels of all rows of the set, if there are any."""
    share: float = 1.0
    """The share of the step's rows of this set, when a step is cut into several batches."""
    rows_by_rank: tuple[int, ...] = ()
    """The rows of the step that each process has; 0 where its rows do not count."""
    teacher_outputs: NDArray[Any] | None = None
    """The teachers' outputs for all rows of the set, if it has teachers."""
    answered: bool = True
    """Whether the task's head answers the rows."""
    weights: NDArray[np.float32] | None = None
    """What the loss of each row of the set is multiplied by; None where all rows count alike."""
    filling: Filling | None = None
    """The size that the part is padded to; not padded unless given."""


@dataclass(frozen=True)
class _Packed:
    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    lengths: Integers


def collate(portions: Sequence[Portion], template: Template) -> PackedBatch:
    """Pack the rows of all portions end to end, one part per portion."""
    packed: list[_Packed] = []
    parts: dict[str, Part] = {}
    sequence = token = longest = 0
    for portion in portions:
        pieces = _pack(portion, template)
        sequences = sum(len(piece.lengths) for piece in pieces)
        tokens = sum(len(piece.ids) for piece in pieces)
        width, filling = len(pieces), portion.filling
        if filling:
            pieces.append(_fill_up(filling, tokens, template.filler))
            tokens = filling.tokens
        parts[portion.name] = Part(
            task=portion.task,
            sequences=slice(sequence, sequence + sequences),
            tokens=slice(token, token + tokens),
            width=width,
            labels=_rows(portion.labels, portion.rows),
            weights=_rows(portion.weights, portion.rows),
            teacher_outputs=_rows(portion.teacher_outputs, portion.rows),
            share=portion.share,
            examples_by_rank=portion.rows_by_rank,
            answered=portion.answered,
            filling=filling.slots if filling else 0,
        )
        packed += pieces
        longest = max(longest, filling.longest if filling else max(int(piece.lengths.max()) for piece in pieces))
        sequence, token = parts[portion.name].slots.stop, token + tokens
    lengths = np.concatenate([piece.lengths for piece in packed])
    return PackedBatch(
        ids=torch.from_numpy(np.concatenate([piece.ids for piece in packed])),
        positions=torch.from_numpy(ranges(np.zeros_like(lengths), lengths).astype(np.int32)),
        types=torch.from_numpy(np.concatenate([piece.types for piece in packed])),
        starts=torch.from_numpy(offsets_of(lengths).astype(np.int32)),
        max_length=longest,
        parts=parts,
    )


def _fill_up(filling: Filling, tokens: int, token: int) -> _Packed:
    """Make sequences of one repeated special token that pad a part of `tokens` tokens to its size."""
    lacking = filling.tokens - tokens
    lengths = np.clip(lacking - filling.longest * np.arange(filling.slots), 0, filling.longest)
    return _Packed(np.full(lacking, token, dtype=np.int32), np.zeros(lacking, dtype=np.int32), lengths)


def _rows(values: NDArray[Any] | None, rows: NDArray[Any]) -> torch.Tensor | None:
    return None if values is None else torch.from_numpy(values[rows])


def sequence_lengths(
    tokens: tuple[Ragged, ...], template: Template, *, max_length: int | None, siamese: bool
) -> Integers:
    """Return the tokens of every sequence as it will be packed; of whole sequences if `max_length` is None.

    Siamese pairs are two sequences per row, all first ones before all second ones.
    """
    if len(tokens) == 2 and not siamese:
        lengths, special = tokens[0].lengths + tokens[1].lengths, template.pair
    else:
        lengths, special = np.concatenate([column.lengths for column in tokens]), template.single
    return lengths + special if max_length is None else np.minimum(lengths + special, max_length)


def count_truncated(tokens: tuple[Ragged, ...], template: Template, *, max_length: int, siamese: bool) -> int:
    """Return how many rows lose tokens when they are packed."""
    whole = sequence_lengths(tokens, template, max_length=None, siamese=siamese)
    return int((whole.reshape(-1, len(tokens[0])) > max_length).any(axis=0).sum())


def _pack(portion: Portion, template: Template) -> list[_Packed]:
    columns = portion.tokens
    if len(columns) == 2 and not portion.siamese:
        return [_pack_pairs(columns, portion.rows, template, portion.max_length)]
    return [_pack_singles(column, portion.rows, template, portion.max_length) for column in columns]


def _pack_singles(column: Ragged, rows: NDArray[Any], template: Template, max_length: int) -> _Packed:
    starts, lengths = column.bounds(rows)
    kept = np.minimum(lengths, max_length - template.single)
    lengths = kept + template.single
    ends = np.cumsum(lengths)
    ids = np.empty(ends[-1] if len(ends) else 0, dtype=np.int32)
    first = ends - lengths
    _fill(ids, first, template.before)
    ids[ranges(first + len(template.before), kept)] = column.values[ranges(starts, kept)]
    _fill(ids, ends - len(template.after), template.after)
    return _Packed(ids, np.full(len(ids), template.types[0], dtype=np.int32), lengths)


def _pack_pairs(columns: tuple[Ragged, ...], rows: NDArray[Any], template: Template, max_length: int) -> _Packed:
    first, second = columns
    (starts_a, lengths_a), (starts_b, lengths_b) = first.bounds(rows), second.bounds(rows)
    kept_a, kept_b = _truncate_pair(lengths_a, lengths_b, max_length - template.pair)
    lengths = kept_a + kept_b + template.pair
    ends = np.cumsum(lengths)
    # Start of each segment: before, a, between, b, after.
    before = ends - lengths
    a = before + len(template.before)
    between = a + kept_a
    b = between + len(template.between)
    after = b + kept_b
    ids = np.empty(ends[-1] if len(ends) else 0, dtype=np.int32)
    _fill(ids, before, template.before)
    ids[ranges(a, kept_a)] = first.values[ranges(starts_a, kept_a)]
    _fill(ids, between, template.between)
    ids[ranges(b, kept_b)] = second.values[ranges(starts_b, kept_b)]
    _fill(ids, after, template.after)
    stretches = np.stack([a - before, kept_a, b - between, kept_b, ends - after], axis=1)
    types = np.repeat(np.tile(np.array(template.types, np.int32), len(rows)), stretches.ravel())
    return _Packed(ids, types, lengths)


def _fill(ids: NDArray[np.int32], starts: Integers, tokens: NDArray[np.int32]) -> None:
    """Write the same few tokens at every start."""
    ids[starts[:, None] + np.arange(len(tokens))] = tokens


def _truncate_pair(first: Integers, second: Integers, room: int) -> tuple[Integers, Integers]:
    """Shorten the longer text of each pair until both fit, as `truncation="longest_first"` does."""
    half = room // 2
    short = np.minimum(first, second)
    over = first + second > room
    keep_short = np.where(over, np.minimum(short, half), short)
    keep_long = np.where(over, room - keep_short, np.maximum(first, second))
    first_is_short = first <= second
    return (
        np.where(first_is_short, keep_short, keep_long),
        np.where(first_is_short, keep_long, keep_short),
    )
