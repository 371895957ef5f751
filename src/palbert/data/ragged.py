"""Ragged: many short arrays in one flat array, so that rows can be selected without a Python loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]], *, dtype: Any = np.int32) -> Ragged:
        """Concatenate rows."""
        offsets = offsets_of(np.array([len(row) for row in rows], dtype=np.int64))
        values = np.fromiter((item for row in rows for item in row), dtype=dtype, count=offsets[-1])
        return cls(values, offsets)

    @classmethod
    def concatenate(cls, parts: Iterable[Ragged]) -> Ragged:
        """Concatenate the rows of several ragged arrays."""
        parts = list(parts)
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), offsets_of(lengths))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of every row."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        row = range(len(self))[row]  # a negative row counts from the end
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """Return the given rows, in the given order."""
        starts, lengths = self.offsets[rows], self.lengths[rows]
        return Ragged(self.values[ranges(starts, lengths)], offsets_of(lengths))

    def save(self, folder: Path, name: str) -> None:
        """Save both arrays to a folder."""
        np.save(folder / f"{name}.values.npy", self.values)
        np.save(folder / f"{name}.offsets.npy", self.offsets)

    @classmethod
    def load(cls, folder: Path, name: str) -> Ragged:
        """Load both arrays from a folder, memory-mapped."""
        return cls(
            np.load(folder / f"{name}.values.npy", mmap_mode="r"),
            np.load(folder / f"{name}.offsets.npy", mmap_mode="r"),
        )


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
        """Return the given rows, in the given order."""
        return Texts(self.bytes.take(rows))

    def __len__(self) -> int:
        return len(self.bytes)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        return self.bytes[int(row)].tobytes().decode("utf-8")


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
