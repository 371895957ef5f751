"""Collate: what lies where in a packed batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from palbert.batch import PackedBatch
from palbert.data.collate import Filling, Portion, collate, count_truncated, sequence_lengths
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import Template

TEMPLATE = Template(np.array([101], np.int32), np.array([102], np.int32), np.array([103], np.int32), (0, 0, 0, 1, 1))
FIRST = Ragged.from_rows([[1, 2, 3], [], [4], [5, 6, 7, 8, 9, 10]])
SECOND = Ragged.from_rows([[11], [12, 13], [], [14, 15, 16, 17]])
ALL = np.arange(4)


def sequences(batch: PackedBatch) -> list[list[int]]:
    starts = batch.starts.tolist()
    return [batch.ids[a:b].tolist() for a, b in itertools.pairwise(starts)]


def test_single_texts_are_framed_by_special_tokens() -> None:
    batch = collate([Portion("a", "a", (FIRST,), ALL, 8)], TEMPLATE)
    assert sequences(batch) == [[101, 1, 2, 3, 103], [101, 103], [101, 4, 103], [101, 5, 6, 7, 8, 9, 10, 103]]
    assert batch.types.unique().tolist() == [0]


def test_a_batch_is_filled_up_with_a_special_token() -> None:
    filling = Filling(24, slots=2, longest=8)
    batch = collate([Portion("a", "a", (FIRST,), ALL[:3], 8, filling=filling)], TEMPLATE)
    assert sequences(batch)[3:] == [[101] * 8, [101] * 6]
    empty = np.array([], np.int32)
    bare = Template(empty, empty, empty, (0,) * 5)
    assert bare.filler == 0


def test_rows_come_in_the_requested_order() -> None:
    batch = collate([Portion("a", "a", (FIRST,), np.array([2, 0, 2]), 8)], TEMPLATE)
    assert sequences(batch) == [[101, 4, 103], [101, 1, 2, 3, 103], [101, 4, 103]]


def test_joint_pairs_form_one_sequence_with_token_types() -> None:
    batch = collate([Portion("a", "a", (FIRST, SECOND), ALL[:3], 8)], TEMPLATE)
    assert sequences(batch) == [[101, 1, 2, 3, 102, 11, 103], [101, 102, 12, 13, 103], [101, 4, 102, 103]]
    assert batch.types.tolist() == [0, 0, 0, 0, 0, 1, 1, *[0, 0, 1, 1, 1], *[0, 0, 0, 1]]


def test_siamese_pairs_are_all_first_texts_then_all_second_ones() -> None:
    batch = collate([Portion("a", "a", (FIRST, SECOND), np.array([2, 3]), 6, siamese=True)], TEMPLATE)
    assert sequences(batch) == [[101, 4, 103], [101, 5, 6, 7, 8, 103], [101, 103], [101, 14, 15, 16, 17, 103]]
    part = batch.parts["a"]
    assert (part.width, part.examples, part.sequences) == (2, 2, slice(0, 4))
    assert batch.types.unique().tolist() == [0]


def test_positions_count_from_0_in_every_sequence() -> None:
    batch = collate([Portion("a", "a", (FIRST, SECOND), ALL, 8), Portion("b", "b", (FIRST,), ALL, 8)], TEMPLATE)
    lengths = batch.starts.diff().tolist()
    assert batch.positions.tolist() == [place for length in lengths for place in range(length)]
    assert batch.max_length == max(lengths)
    assert batch.tokens == sum(lengths)
    assert batch.starts.dtype == torch.int32


def test_each_part_of_a_mixed_batch_equals_a_batch_of_that_task_alone() -> None:
    portions = [
        Portion("joint", "joint", (FIRST, SECOND), ALL, 7, labels=np.arange(4) * 10),
        Portion("single", "single", (FIRST,), np.array([3, 1]), 5),
        Portion("siamese", "siamese", (FIRST, SECOND), np.array([0, 3, 2]), 5, siamese=True, labels=np.arange(4.0)),
    ]
    mixed = collate(portions, TEMPLATE)
    assert list(mixed.parts) == ["joint", "single", "siamese"]
    for portion in portions:
        alone, part = collate([portion], TEMPLATE), mixed.parts[portion.name]
        for field in ("ids", "types", "positions"):
            assert torch.equal(getattr(mixed, field)[part.tokens], getattr(alone, field))
        starts = mixed.starts[part.sequences.start : part.sequences.stop + 1]
        assert torch.equal(starts - starts[0], alone.starts)
        assert part.examples == len(portion.rows)
    assert mixed.parts["single"].sequences.start == mixed.parts["joint"].sequences.stop
    assert mixed.parts["siamese"].sequences.stop == mixed.sequences
    assert mixed.parts["siamese"].tokens.stop == mixed.tokens


def test_labels_follow_their_rows() -> None:
    part = collate([Portion("a", "a", (FIRST,), np.array([3, 1]), 8, labels=np.array([0, 1, 2, 3]))], TEMPLATE).parts[
        "a"
    ]
    assert part.labels is not None
    assert part.labels.tolist() == [3, 1]
    assert collate([Portion("a", "a", (FIRST,), ALL, 8)], TEMPLATE).parts["a"].labels is None


@pytest.mark.parametrize("siamese", [False, True], ids=["joint", "siamese"])
@pytest.mark.parametrize("columns", [(FIRST,), (FIRST, SECOND)], ids=["single", "pair"])
@pytest.mark.parametrize("max_length", [3, 4, 5, 6, 7, 8, 50])
def test_sequence_lengths_are_those_of_the_packed_batch(
    columns: tuple[Ragged, ...], siamese: bool, max_length: int
) -> None:
    lengths = sequence_lengths(columns, TEMPLATE, max_length=max_length, siamese=siamese)
    packed = collate([Portion("a", "a", columns, ALL, max_length, siamese=siamese)], TEMPLATE)
    assert lengths.tolist() == packed.starts.diff().tolist()
    assert lengths.max() <= max_length
    whole = collate([Portion("a", "a", columns, ALL, 1000, siamese=siamese)], TEMPLATE)
    assert (
        sequence_lengths(columns, TEMPLATE, max_length=None, siamese=siamese).tolist() == whole.starts.diff().tolist()
    )
    lost = whole.starts.diff().reshape(-1, len(ALL)) > packed.starts.diff().reshape(-1, len(ALL))
    truncated = count_truncated(columns, TEMPLATE, max_length=max_length, siamese=siamese)
    assert truncated == lost.any(dim=0).sum()  # rows, whichever side is cut


def test_a_batch_moves_with_its_labels() -> None:
    batch = collate([Portion("a", "a", (FIRST,), ALL, 8, labels=np.arange(4))], TEMPLATE)
    moved = batch.to("meta")
    assert {moved.ids.device.type, moved.starts.device.type, moved.types.device.type} == {"meta"}
    labels = moved.parts["a"].labels
    assert labels is not None
    assert labels.device.type == "meta"
    assert moved.max_length == batch.max_length
