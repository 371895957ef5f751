"""Sequences: those of a batch or of its parts, and windows that are shorter than some sequence."""

from __future__ import annotations

import torch

from palbert.batch import PackedBatch, Part
from palbert.model.attention import Sequences
from palbert.model.attention.sequences import SHORT


def sequences_of(*lengths: int) -> Sequences:
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    return Sequences(starts, tokens=sum(lengths), max_length=max(lengths))


def test_the_parts_of_a_batch_start_at_their_own_first_token() -> None:
    zeros = torch.zeros(14, dtype=torch.long)
    parts = {
        "a": Part("a", slice(0, 1), slice(0, 4)),
        "b": Part("b", slice(1, 2), slice(4, 9), filling=1),
        "c": Part("c", slice(3, 4), slice(9, 14)),
    }
    starts = torch.tensor([0, 4, 7, 9, 14], dtype=torch.int32)
    batch = PackedBatch(ids=zeros, positions=zeros, types=zeros, starts=starts, max_length=5, parts=parts)
    found = Sequences.of(batch, parts=[parts["b"], parts["c"]])
    assert found.starts.tolist() == [0, 3, 5, 10] and found.tokens == 10
    assert Sequences.of(batch).starts is starts


def test_a_window_that_covers_every_token_is_dropped() -> None:
    sequences = sequences_of(5, 9)
    assert sequences.within(0) is sequences
    assert sequences.within(8) is sequences
    assert sequences.within(7).window == 7


def test_layers_with_the_same_window_share_padding_and_seeds() -> None:
    sequences = sequences_of(5, 9)
    assert sequences.within(3) is sequences.within(3)
    assert sequences.within(3).padding is not sequences.within(2).padding
    assert sequences.within(3).seeds is sequences.seeds


def test_single_parts_have_the_window_too() -> None:
    whole = Sequences(torch.tensor([0, 9]).int(), tokens=9, max_length=9, by_part=[sequences_of(9)])
    assert [part.window for part in whole.within(3).by_part] == [3]


def test_sequences_are_short_if_their_mean_length_is() -> None:
    assert sequences_of(SHORT, 1).are_short
    assert not sequences_of(2 * SHORT, 1).are_short
