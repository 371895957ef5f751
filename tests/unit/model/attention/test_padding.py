"""Padding: groups hold every sequence once, masks leave every query a key, and rows return to their places."""

from __future__ import annotations

import pytest
import torch

from palbert.model.attention import padding
from palbert.model.attention.padding import Padding, pad_group


@pytest.mark.parametrize("lengths", [[30, 29, 18, 17, 9, 2, 1], [512, 512, 512], [7], [3, 0, 0], [0, 0], []])
def test_groups_hold_every_sequence_once_with_similar_lengths_together(lengths: list[int]) -> None:
    groups = [lengths[begin:end] for begin, end in padding.similar_lengths(lengths)]
    assert [length for group in groups for length in group] == [length for length in lengths if length]
    for group in groups:
        assert group[-1] >= padding.GROUP_FILL * group[0]
        assert len(group) == 1 or len(group) * group[0] ** 2 <= padding.GROUP_SCORES


def group_of(lengths: list[int], *, window: int = 0) -> padding.PaddedGroup:
    sizes = torch.tensor(lengths)
    starts = torch.tensor([0, *lengths]).cumsum(0)[:-1]
    full = len(set(lengths)) == 1
    return pad_group(starts, sizes, max(lengths), full=full, tokens=sum(lengths), bias=None, window=window)


@pytest.mark.parametrize("lengths", [[3, 3], [9, 1, 0, 5]])
@pytest.mark.parametrize("window", [0, 2])
def test_a_mask_shows_each_real_query_the_keys_in_its_window(lengths: list[int], window: int) -> None:
    group = group_of(lengths, window=window)
    longest = max(lengths)
    scores = torch.zeros(len(lengths), 1, longest, longest)
    scores = scores if group.mask is None else scores + group.mask
    assert scores.isfinite().any(-1).all()  # a softmax over nothing would be NaN
    for row, length in enumerate(lengths):
        for query in range(length):
            found = scores[row, 0, query].isfinite().nonzero().flatten().tolist()
            expected = [key for key in range(length) if not window or abs(query - key) <= window]
            assert found == expected


def test_slots_hold_the_tokens_of_their_sequence_and_filling_is_marked() -> None:
    group = group_of([2, 3])
    assert group.tokens.tolist() == [[0, 1, 1], [2, 3, 4]]
    assert group.filling.tolist() == [[False, False, True], [False, False, False]]


def test_putting_back_restores_what_was_taken() -> None:
    padded = Padding(6, [group_of([4, 2])])
    rows = padded.rows(2)
    values = torch.arange(6 * 3 * 2)  # (tokens, 3, heads)
    taken = values[rows.take]
    assert torch.equal(taken[rows.put_all], values)
    assert torch.equal(taken[: len(taken) // 3][rows.put], values.view(6, 3, 2)[:, 0].flatten())
    assert padded.rows(2) is rows
