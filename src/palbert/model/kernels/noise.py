"""Random masks inside of kernels, from a seed on the device."""

from __future__ import annotations

import triton
import triton.language as tl

ROUNDS = tl.constexpr(7)
"""The fewest rounds of Philox4x32 that pass all tests of randomness (Salmon et al. 2011, "Parallel random numbers")."""


@triton.jit
def is_kept(seed, firsts, THRESHOLD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return which values of a (ROWS, COLUMNS) block are kept; a row draws COLUMNS / 4 times, from its first counter.

    One draw gives four numbers, for four consecutive columns.
    """
    places = firsts[:, None] + tl.arange(0, COLUMNS // 4)[None, :]
    a, b, c, d = tl.randint4x(seed, places, ROUNDS)
    drawn = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), [ROWS, COLUMNS])
    return (drawn >> 1).to(tl.int32) >= THRESHOLD


def threshold(probability: float) -> int:
    """Return how many of the 2³¹ numbers mean that a value is dropped."""
    return min(round(probability * 2**31), 2**31 - 1)
