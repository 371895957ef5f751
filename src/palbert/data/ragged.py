"""Ragged: many short arrays in one flat array, so that rows can be gathered without a Python loop."""

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
        """Lay rows end to end."""
        offsets = offsets_of(np.array([len(row) for row in rows], dtype=np.int64))
        values = np.fromiter((item for row in rows for item in row), dtype=dtype, count=offsets[-1])
        return cls(values, offsets)

    @classmethod
    def concatenate(cls, parts: Iterable[Ragged]) -> Ragged:
        """Append the rows of several."""
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
        row = range(len(self))[row]  # from the end, if negative
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """Return some of the rows, in that order."""
        starts, lengths = self.offsets[rows], self.lengths[rows]
        return Ragged(self.values[ranges(starts, lengths)], offsets_of(lengths))

    def save(self, folder: Path, name: str) -> None:
        """Write both arrays."""
        np.save(folder / f"{name}.values.npy", self.values)
        np.save(folder / f"{name}.offsets.npy", self.offsets)

    @classmethod
    def load(cls, folder: Path, name: str) -> Ragged:
        """Map both arrays into memory."""
        return cls(
            np.load(folder / f"{name}.values.npy", mmap_mode="r"),
            np.load(folder / f"{name}.offsets.npy", mmap_mode="r"),
        )


@dataclass(frozen=True)
class Texts(Sequence[str]):
    """Strings kept as one UTF-8 array; a row is decoded when it is asked for."""

    bytes: Ragged

    @classmethod
    def from_rows(cls, rows: Sequence[str]) -> Texts:
        """Encode strings."""
        encoded = [row.encode("utf-8") for row in rows]
        values = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls(Ragged(values, offsets_of(np.array([len(row) for row in encoded], dtype=np.int64))))

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """Return some of the rows, in that order."""
        return Texts(self.bytes.take(rows))

    def __len__(self) -> int:
        return len(self.bytes)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        return self.bytes[int(row)].tobytes().decode("utf-8")


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return cumulative lengths, from 0."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return start, start + 1, … for each start, end to end: `ranges([5, 0], [2, 3])` is 5 6 0 1 2."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shifts: NDArray[np.int64] = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total, dtype=np.int64) + shifts
