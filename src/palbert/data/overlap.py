"""Overlap: training rows that also occur in dev or test, ignoring case, whitespace and the order of a pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from palbert.data.dataset import Dataset
from palbert.data.ragged import PART, Texts
from palbert.data.row_keys import normal
from palbert.data.split_column import rows_of_split
from palbert.readers import read_chunks
from palbert.tasks.sets import DataFiles

Row = tuple[str, ...]
Mask = NDArray[np.bool_]


def normal_row(texts: Iterable[str]) -> Row:
    """Return the texts of a row without differences in case, whitespace and the order of a pair."""
    return tuple(sorted(map(normal, texts)))


class RowIndex:
    """The rows of a split, to look up others in."""

    def __init__(self, rows: Iterable[Iterable[str]]) -> None:
        self.rows = {normal_row(row) for row in rows}
        self.texts = {text for row in self.rows for text in row}

    def holds(self, columns: Sequence[Sequence[str]], *, by_text: bool = False) -> Mask:
        """Return which rows of normalised texts are in the index, or with `by_text` share a text with it.

        A triplet is looked up in an index of pairs as two pairs: the anchor with each of the other texts. In an index
        of single texts, a row of several texts is looked up by each of them.
        """
        width = max(map(len, self.rows), default=1)
        if by_text or width == 1:
            return _any(np.fromiter(map(self.texts.__contains__, column), np.bool_) for column in columns)
        anchor, *others = columns
        return _any(
            np.fromiter(((min(pair), max(pair)) in self.rows for pair in zip(anchor, other, strict=True)), np.bool_)
            for other in others
        )


def index_rows(files: DataFiles) -> RowIndex:
    """Read the texts of files, and nothing else: test files may have no labels, or labels that must stay unseen."""
    return RowIndex(_rows(files))


def find_overlap(dataset: Dataset, indices: Iterable[tuple[RowIndex, bool]]) -> list[Mask]:
    """Return which rows each index holds; with True next to it, which rows share a text with it."""
    found: list[tuple[Mask, RowIndex, bool]] = []
    for index, by_text in indices:
        found.append((np.zeros(len(dataset), dtype=np.bool_), index, by_text))
    for first, columns in normal_parts(dataset.texts):
        for mask, index, by_text in found:
            mask[first : first + len(columns[0])] = index.holds(columns, by_text=by_text)
    return [mask for mask, *_ in found]


def count_found(rows: Sequence[Texts], others: Iterable[Sequence[Texts]]) -> int:
    """Count the rows that are also among others, which may be many times as many."""
    wanted = [row for _, columns in normal_parts(rows) for row in map(_sorted, zip(*columns, strict=True))]
    left, found = set(wanted), set()
    for texts in others:
        for _, columns in normal_parts(texts):
            found |= left.intersection(map(_sorted, zip(*columns, strict=True)))
    return sum(row in found for row in wanted)


def normal_parts(texts: Sequence[Texts]) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield the texts of rows without differences in case and whitespace, some rows at a time, by column.

    With them goes the number of the first row of each part.
    """
    parts = zip(*(column.parts() for column in texts), strict=True)
    for number, columns in enumerate(parts):
        yield number * PART, [[normal(text) for text in column] for column in columns]


def _rows(files: DataFiles) -> Iterator[list[str]]:
    for source in files.sources:
        for chunk in read_chunks(source.path, dialect=source.dialect_over(files.dialect)):
            chunk = rows_of_split(chunk, files.marked)
            if chunk.columns:  # JSONL without rows names no columns
                columns = [chunk.column(name) for name in source.text or files.text]
                yield from ([text or "" for text in row] for row in zip(*columns, strict=True))


def _sorted(row: Row) -> Row:
    return tuple(sorted(row))


def _any(masks: Iterable[Mask]) -> Mask:
    found: Mask = np.logical_or.reduce(list(masks))
    return found
