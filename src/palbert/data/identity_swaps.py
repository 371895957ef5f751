"""Identity swaps: training rows next to copies in which another group of people is named, with the same label."""

from __future__ import annotations

import zlib
from dataclasses import replace
from itertools import groupby

import numpy as np

from palbert.bias.lexicon import read_lexicon
from palbert.bias.swapper import Row, Swap, Swapper
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged, Texts
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError

TOGETHER = 2
"""A row and its copy stay next to each other."""


def with_swapped_copies(rows: Dataset, tokenizer: TextTokenizer) -> Dataset:
    """Return the rows that name a group, each followed by a copy that names another; no others.

    A row that names groups of several axes is there once for each, with a copy. Which other group a copy names depends
    on the row alone, so that a run can be repeated.
    """
    swapper = Swapper(read_lexicon())
    numbers: list[int] = []
    copies: list[Row] = []
    for number, texts in enumerate(zip(*rows.texts, strict=True)):
        for swap in one_of_each_axis(texts, swapper.swaps(texts)):
            numbers.append(number)
            copies.append(swap.texts)
    if not copies:
        raise DataError(
            f"{', '.join(rows.files)}: no row of {rows.task} names a group of people that could be exchanged.",
            hint='Leave the set with form = "identity-swaps" out.',
        )
    chosen = np.array(numbers, dtype=np.int64)
    order = np.arange(TOGETHER * len(chosen)).reshape(TOGETHER, -1).T.ravel()  # row, copy, row, copy, …
    own, columns = rows.take(chosen), list(zip(*copies, strict=True))
    twice = np.repeat(chosen, TOGETHER)
    return replace(
        rows.take(twice),
        texts=tuple(
            Texts(Ragged.concatenate([column.bytes, Texts.from_rows(other).bytes]).take(order))
            for column, other in zip(own.texts, columns, strict=True)
        ),
        tokens=tuple(
            Ragged.concatenate([column, tokenizer(list(other))]).take(order)
            for column, other in zip(own.tokens, columns, strict=True)
        ),
    )


def one_of_each_axis(texts: Row, swaps: list[Swap]) -> list[Swap]:
    """Return one swap of each axis, chosen by the texts."""
    place = zlib.crc32("\n".join(texts).encode())
    by_axis = [list(each) for _, each in groupby(swaps, key=lambda swap: swap.axis)]
    return [each[place % len(each)] for each in by_axis]
