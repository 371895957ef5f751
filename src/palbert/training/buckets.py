"""Buckets: a few sizes that the batches of a set are padded to, so that steps repeat their shapes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DEVIATIONS = (0.0, 1.0, 2.0, 4.0)
"""Sizes of the buckets: this many standard deviations above the mean of a batch."""
STEP = 32
"""Sizes are rounded up to a multiple of this."""


class Buckets:
    """A few sizes from the average to the largest batch of a set.

    The tokens of n rows are a sum of n lengths: n μ on average, with a standard deviation of √n σ. So a handful of
    sizes around n μ fit nearly all batches with little padding, for any n.

    Args:
        lengths: Tokens of every row of the set, truncated, with special tokens.
        longest: Tokens of the longest possible sequence.
    """

    def __init__(self, lengths: NDArray[np.int64], *, longest: int) -> None:
        self.lengths = lengths
        self.longest = longest
        self._mean, self._deviation = float(lengths.mean()), float(lengths.std())
        self.sizes = lru_cache(maxsize=None)(self._sizes)

    def _sizes(self, rows: int) -> tuple[int, ...]:
        """Return the sizes for batches of this many rows, smallest first, without duplicates."""
        most = rows * int(self.lengths.max())
        sizes = (rows * self._mean + deviations * self._spread(rows) for deviations in DEVIATIONS)
        return tuple(dict.fromkeys(math.ceil(min(size, most) / STEP) * STEP for size in sizes))

    def level(self, rows: NDArray[np.int64]) -> int | None:
        """Return the number of the smallest size that fits; None if their total is unusually large or small."""
        tokens = int(self.lengths[rows].sum())
        if tokens < self._least(len(rows)):
            return None
        return next((level for level, size in enumerate(self.sizes(len(rows))) if size >= tokens), None)

    def size(self, rows: int, level: int) -> int:
        """Return the size of a level; the largest if there are fewer levels."""
        return self.sizes(rows)[min(level, len(self.sizes(rows)) - 1)]

    def slots(self, rows: int, level: int) -> int:
        """Return how many padding sequences the shortest batch needs to reach a level."""
        return math.ceil((self.size(rows, level) - self._least(rows)) / self.longest)

    def _least(self, rows: int) -> float:
        return max(rows * int(self.lengths.min()), rows * self._mean - DEVIATIONS[-1] * self._spread(rows))

    def _spread(self, rows: int) -> float:
        return math.sqrt(rows) * self._deviation
