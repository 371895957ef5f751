"""Streams: the endless, reshuffled order of a training set's rows, as a pure function of the position in it."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Stream:
    """Batches of row numbers that pass over the whole set again and again, in a new order each time.

    A batch depends only on its first position and the seed, so that a run can resume anywhere.
    """

    def __init__(self, name: str, *, rows: int, batch_size: int, seed: int) -> None:
        self.name = name
        self.rows = rows
        self.batch_size = batch_size
        self.seed = seed
        self._order = lru_cache(maxsize=2)(self._shuffle)

    def _shuffle(self, turn: int) -> NDArray[Any]:
        generator = np.random.default_rng([self.seed, zlib.crc32(self.name.encode()), turn])
        order = np.arange(self.rows, dtype=np.int32 if self.rows < 2**31 else np.int64)
        generator.shuffle(order)  # as `permutation` does, in half its memory: 4 bytes per row
        return order

    def batch(self, start: int) -> NDArray[np.int64]:
        """Return the rows of the batch that begins after `start` drawn rows."""
        places = np.arange(start, start + self.batch_size)
        turns, places = np.divmod(places, self.rows)
        drawn = [self._order(int(turn))[places[turns == turn]] for turn in np.unique(turns)]
        return np.concatenate(drawn).astype(np.int64)
