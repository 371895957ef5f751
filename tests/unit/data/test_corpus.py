"""Corpus: each text once, some held out, long ones split into pieces without loss."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.data.corpus import FEWEST_HELD_OUT, Corpus, split_corpus
from palbert.data.ragged import Ragged
from palbert.errors import DataError


def rows_of(corpus: Corpus) -> list[tuple[int, ...]]:
    return [tuple(corpus.tokens[0][row].tolist()) for row in range(len(corpus))]


def numbered(count: int) -> Ragged:
    return Ragged.from_rows([[number, number + 1] for number in range(count)])


def test_repeated_texts_are_used_once_and_empty_ones_never() -> None:
    columns = [Ragged.from_rows([[1, 2], [3], [1, 2], []]), Ragged.from_rows([[3], [4, 5], [1]])]
    parts = split_corpus(columns, room=10, held_out=0.2, seed=0)
    assert sorted(rows_of(parts[0]) + rows_of(parts[1])) == [(1,), (1, 2), (3,), (4, 5)]
    assert [part.texts for part in parts] == [3, 1]


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(10_000, 0.02, 200), (1_000, 0.02, FEWEST_HELD_OUT), (100, 0.02, 20), (3, 0.02, 1), (10, 0.999, 9)],
)
def test_a_share_of_the_texts_but_at_least_one_is_held_out(count: int, share: float, expected: int) -> None:
    train, held_out = split_corpus([numbered(count)], room=8, held_out=share, seed=0)
    assert (len(train), len(held_out)) == (count - expected, expected)
    assert not set(rows_of(train)) & set(rows_of(held_out))


def test_the_seed_decides_which_texts_are_held_out() -> None:
    drawn = [rows_of(split_corpus([numbered(400)], room=8, held_out=0.1, seed=seed)[1]) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_long_texts_are_cut_into_pieces_and_nothing_is_lost() -> None:
    texts = [list(range(start, start + length)) for start, length in [(0, 7), (100, 3), (200, 6), (300, 1)]]
    train, held_out = split_corpus([Ragged.from_rows(texts)], room=3, held_out=0.25, seed=0)
    pieces = rows_of(train) + rows_of(held_out)
    assert max(map(len, pieces)) == 3
    assert len(pieces) == 3 + 1 + 2 + 1
    assert sorted(number for piece in pieces for number in piece) == sorted(number for text in texts for number in text)
    assert all(np.diff(piece).max(initial=1) == 1 for piece in pieces)  # no piece has two texts
    assert train.texts + held_out.texts == 4


def test_one_text_is_not_enough() -> None:
    with pytest.raises(DataError, match=r"at least two different texts.*found 1"):
        split_corpus([Ragged.from_rows([[1], [1], []])], room=8, held_out=0.02, seed=0)
