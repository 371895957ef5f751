"""Ragged and Texts behave like the lists they represent."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.data.ragged import Ragged, Texts, ranges

ROWS = [[5, 6], [], [7], [1, 2, 3, 4]]
TEXTS = ["plain", "", "ünï 中文", "🎉🙂", "a\nb\t\r"]


def test_rows_are_returned_unchanged() -> None:
    ragged = Ragged.from_rows(ROWS)
    assert [list(ragged[row]) for row in range(len(ragged))] == ROWS
    assert list(ragged.lengths) == [2, 0, 1, 4]


def test_concatenation_appends_rows() -> None:
    joined = Ragged.concatenate([Ragged.from_rows(ROWS[:1]), Ragged.from_rows([]), Ragged.from_rows(ROWS[1:])])
    assert [list(joined[row]) for row in range(len(joined))] == ROWS


def test_negative_indices_count_from_the_end() -> None:
    ragged, texts = Ragged.from_rows(ROWS), Texts.from_rows(TEXTS)
    assert [list(ragged[-row]) for row in range(1, 5)] == ROWS[::-1]
    assert texts[-1] == TEXTS[-1]


@pytest.mark.parametrize("row", [4, -5, 100])
def test_an_index_out_of_range_is_an_error(row: int) -> None:
    with pytest.raises(IndexError):
        Ragged.from_rows(ROWS)[row]


def test_texts_are_a_sequence_of_strings() -> None:
    texts = Texts.from_rows(TEXTS)
    assert list(texts) == TEXTS
    assert texts[1:4] == TEXTS[1:4]
    assert texts[::-1] == TEXTS[::-1]
    assert "🎉🙂" in texts


def test_chosen_rows_are_the_rows_without_a_copy() -> None:
    ragged = Ragged.from_rows(ROWS)
    chosen = ragged.take(np.array([3, 1, 0, 3])).take(np.array([0, 2, 1]))
    assert [list(chosen[row]) for row in range(len(chosen))] == [ROWS[3], ROWS[0], ROWS[1]]
    assert chosen.lengths.tolist() == [4, 2, 0]
    assert chosen.values is ragged.values


@pytest.mark.parametrize("size", [1, 3, 100])
def test_parts_are_all_rows_in_order(size: int) -> None:
    for ragged in (Ragged.from_rows(ROWS), Ragged.from_rows(ROWS).take(np.array([2, 0, 3])), Ragged.from_rows([])):
        parts = list(ragged.parts(size))
        found = [list(part[row]) for part in parts for row in range(len(part))]
        assert found == [list(ragged[row]) for row in range(len(ragged))]


def test_iterating_over_chosen_texts_decodes_them() -> None:
    assert list(Texts.from_rows(TEXTS).take(np.array([3, 2, 1]))) == [TEXTS[3], TEXTS[2], TEXTS[1]]


def test_ranges_are_concatenated() -> None:
    starts, lengths = np.array([5, 0, 9, 3]), np.array([2, 3, 0, 1])
    expected = [place for start, length in zip(starts, lengths, strict=True) for place in range(start, start + length)]
    assert list(ranges(starts, lengths)) == expected
    assert list(ranges(starts[:0], lengths[:0])) == []
