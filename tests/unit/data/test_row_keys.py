"""Row keys: equal where rows are, and the same groups as comparing the texts themselves."""

from __future__ import annotations

import numpy as np

from palbert.data.ragged import Texts
from palbert.data.row_keys import first_rows, numbered, row_keys, text_keys

COLUMN = Texts.from_rows(["A b", "a  B", "c", "a b", "", "C "])


def test_texts_have_one_key_whatever_their_case_and_whitespace() -> None:
    assert first_rows(text_keys(COLUMN)).tolist() == [0, 0, 2, 0, 4, 2]
    assert first_rows(text_keys(COLUMN, exact=True)).tolist() == [0, 1, 2, 3, 4, 5]


def test_rows_have_one_key_whatever_the_order_of_their_texts() -> None:
    first, second = Texts.from_rows(["a", "b", "a", "a", "x"]), Texts.from_rows(["B", "a", "a", "c", "x"])
    assert first_rows(row_keys([first, second])).tolist() == [0, 0, 2, 3, 4]


def test_keys_are_numbered_as_they_first_occur() -> None:
    drawn = np.random.default_rng(0).integers(0, 300, 2000)
    numbers: dict[int, int] = {}
    assert numbered(drawn.astype(np.uint64)).tolist() == [numbers.setdefault(key, len(numbers)) for key in drawn]


def test_no_rows_have_no_keys() -> None:
    assert numbered(text_keys(Texts.from_rows([]))).tolist() == []
