"""Overlap: training rows that are in dev or test too, whatever their case, their spaces and the order of a pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from palbert.data.dataset import Dataset, Split
from palbert.data.ragged import Texts
from palbert.data.readers import read_chunks
from palbert.tasks.spec import Task

Row = tuple[str, ...]
Mask = NDArray[np.bool_]


def normal(text: str) -> str:
    """Write texts alike that differ in case and spaces alone."""
    return " ".join(text.casefold().split())


def normal_row(texts: Iterable[str]) -> Row:
    """Write rows alike that differ in case, spaces and the order of a pair alone."""
    return tuple(sorted(map(normal, texts)))


class RowIndex:
    """The rows of a split, to look others up in."""

    def __init__(self, rows: Iterable[Iterable[str]]) -> None:
        self.rows = {normal_row(row) for row in rows}
        self.texts = {text for row in self.rows for text in row}

    def holds(self, columns: Sequence[Sequence[str]], *, by_text: bool = False) -> Mask:
        """Say which rows of normal texts are known, or have a text that is.

        Triplets have one column more than the pairs they are compared with: theirs are the anchor's with each other
        text. A set with more columns than the single texts it is compared with counts by each of its texts.
        """
        width = max(map(len, self.rows), default=1)
        if by_text or width == 1:
            return _any(np.fromiter(map(self.texts.__contains__, column), np.bool_) for column in columns)
        anchor, *others = columns
        return _any(
            np.fromiter(((min(pair), max(pair)) in self.rows for pair in zip(anchor, other, strict=True)), np.bool_)
            for other in others
        )


def index_rows(task: Task, split: Split) -> RowIndex:
    """Read the texts of a split, and nothing else: test files may have no labels, or labels that nobody may know."""
    return RowIndex(_rows(task, split))


def find_overlap(dataset: Dataset, splits: Iterable[tuple[RowIndex, bool]]) -> list[Mask]:
    """Say which rows of a set each split holds; with True, those with a text of the split."""
    columns = [_normal_column(texts) for texts in dataset.texts]
    return [split.holds(columns, by_text=by_text) for split, by_text in splits]


def _rows(task: Task, split: Split) -> Iterator[list[str]]:
    for source in getattr(task, split):
        for chunk in read_chunks(source.path, quoting=source.quoting or task.quoting):
            if chunk.columns:  # JSONL without rows names no columns
                columns = [chunk.column(name) for name in source.text or task.text]
                yield from ([text or "" for text in row] for row in zip(*columns, strict=True))


def _normal_column(texts: Texts) -> list[str]:
    whole = texts.bytes.values.tobytes()  # slices of bytes are many times quicker than rows of a mapped array
    return [normal(whole[start:end].decode("utf-8")) for start, end in pairwise(texts.bytes.offsets.tolist())]


def _any(masks: Iterable[Mask]) -> Mask:
    found: Mask = np.logical_or.reduce(list(masks))
    return found
