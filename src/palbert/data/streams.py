"""Streams: the endless, reshuffled order of a training set's rows, as a pure function of the position in it."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


def cut(rows: NDArray[Any], parts: int, *, together: int = 1) -> list[NDArray[Any]]:
    """Cut the rows of a batch into parts of about the same size; neighbours that stay together do so here, too."""
    if together == 1:
        return np.array_split(rows, parts)
    return [part.ravel() for part in np.array_split(rows.reshape(-1, together), parts)]


class Stream:
    """Batches of row numbers that pass over the whole set again and again, in a new order each time.

    A batch depends only on its first position and the seed, so that a run can resume anywhere.

    Args:
        name: The set, whose name is part of the seed.
        rows: How many rows it has.
        batch_size: Rows per batch.
        seed: The run's seed.
        together: How many neighbouring rows stay together; a divisor of `rows` and of `batch_size`.
    """

    def __init__(self, name: str, *, rows: int, batch_size: int, seed: int, together: int = 1) -> None:
        assert rows % together == 0 and batch_size % together == 0, f"{name}: {together} rows stay together"
        self.name = name
        self.rows = rows
        self.batch_size = batch_size
        self.seed = seed
        self.together = together
        self._order = lru_cache(maxsize=2)(self._shuffle)

    def _shuffle(self, turn: int) -> NDArray[Any]:
        generator = np.random.default_rng([self.seed, zlib.crc32(self.name.encode()), turn])
        order = np.arange(self.rows // self.together, dtype=np.int32 if self.rows < 2**31 else np.int64)
        generator.shuffle(order)  # as `permutation` does, in half its memory: 4 bytes per row
        if self.together == 1:
            return order
        return (order[:, None] * self.together + np.arange(self.together, dtype=order.dtype)).ravel()

    def batch(self, start: int) -> NDArray[np.int64]:
        """Return the rows of the batch that begins after `start` drawn rows."""
        places = np.arange(start, start + self.batch_size)
        turns, places = np.divmod(places, self.rows)
        drawn = [self._order(int(turn))[places[turns == turn]] for turn in np.unique(turns)]
        return np.concatenate(drawn).astype(np.int64)
