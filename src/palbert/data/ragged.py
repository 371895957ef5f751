"""Ragged: many short arrays in one flat array, so that rows can be selected without a Python loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

PART = 1 << 14
"""Rows that are copied into memory at a time."""


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`, or where rows are chosen, row i is that of `chosen[i]`."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]
    chosen: NDArray[np.int64] | None = None
    """Which rows there are, in this order; all of them unless given. The arrays may be files: nothing is copied."""

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]], *, dtype: Any = np.int32) -> Ragged:
        """Concatenate rows."""
        offsets = offsets_of(np.array([len(row) for row in rows], dtype=np.int64))
        values = np.fromiter((item for row in rows for item in row), dtype=dtype, count=offsets[-1])
        return cls(values, offsets)

    @classmethod
    def concatenate(cls, columns: Iterable[Ragged]) -> Ragged:
        """Concatenate the rows of several ragged arrays in memory."""
        parts = [part for column in columns for part in column.parts()]
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), offsets_of(lengths))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of every row."""
        return np.diff(self.offsets) if self.chosen is None else self.bounds(np.arange(len(self)))[1]

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.chosen is None else len(self.chosen)

    def __getitem__(self, row: int) -> NDArray[Any]:
        row = range(len(self))[row]  # a negative row counts from the end
        place = row if self.chosen is None else self.chosen[row]
        return self.values[self.offsets[place] : self.offsets[place + 1]]

    def bounds(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where each of the given rows starts in `values`, and its length."""
        places = rows if self.chosen is None else self.chosen[rows]
        starts = self.offsets[places]
        return starts, self.offsets[places + 1] - starts

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """Return the given rows, in the given order; the values stay where they are."""
        return Ragged(self.values, self.offsets, rows if self.chosen is None else self.chosen[rows])

    def parts(self, size: int = PART) -> Iterator[Ragged]:
        """Yield all rows in order as plain arrays in memory, some at a time; there is at least one part."""
        for first in range(0, max(len(self), 1), size):
            rows = np.arange(first, min(first + size, len(self)))
            starts, lengths = self.bounds(rows)
            offsets = offsets_of(lengths)
            if self.chosen is None:
                start = int(self.offsets[first])
                values = np.asarray(self.values[start : start + int(offsets[-1])])
            else:
                values = self.values[ranges(starts, lengths)]
            yield Ragged(values, offsets)


@dataclass(frozen=True)
class Texts(Sequence[str]):
    """Strings stored as one UTF-8 array; a string is decoded when it is accessed."""

    bytes: Ragged

    @classmethod
    def from_rows(cls, rows: Sequence[str]) -> Texts:
        """Encode strings."""
        encoded = [row.encode("utf-8") for row in rows]
        values = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls(Ragged(values, offsets_of(np.array([len(row) for row in encoded], dtype=np.int64))))

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """Return the given rows, in the given order; nothing is copied."""
        return Texts(self.bytes.take(rows))

    def __len__(self) -> int:
        return len(self.bytes)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        return self.bytes[int(row)].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        return (row.decode("utf-8") for row in self.encoded())

    def parts(self) -> Iterator[list[str]]:
        """Yield all texts in order, some at a time; there is at least one part."""
        for part in self.bytes.parts():
            yield list(Texts(part))

    def encoded(self) -> Iterator[Any]:
        """Yield each text in UTF-8; many times faster than reading rows of a mapped array."""
        for part in self.bytes.parts():
            whole, ends = part.values.tobytes(), part.offsets.tolist()
            yield from (whole[start:end] for start, end in pairwise(ends))


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cumulative lengths, starting with 0."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenation of start, start + 1, … for each start: `ranges([5, 0], [2, 3])` is 5 6 0 1 2."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shifts: NDArray[np.int64] = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total, dtype=np.int64) + shifts
