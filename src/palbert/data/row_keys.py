"""Row keys: texts and rows as numbers of 64 bits, so that millions of them can be compared in little memory.

Two different texts of 50 million have the same key by chance with a probability below 0.0001.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from palbert.data.ragged import Texts

Keys = NDArray[np.uint64]


def normal(text: str) -> str:
    """Return a text without differences in case and whitespace."""
    return " ".join(text.casefold().split())


def text_keys(column: Texts, *, exact: bool = False) -> Keys:
    """Return the key of every text; texts that differ in case and whitespace only have one key, unless `exact`."""
    encoded = column.encoded() if exact else (normal(text).encode() for text in column)
    digests = (int.from_bytes(blake2b(text, digest_size=8).digest(), "little") for text in encoded)
    return np.fromiter(digests, np.uint64, count=len(column))


def row_keys(columns: Sequence[Texts]) -> Keys:
    """Return the key of every row: equal for the same texts in any order."""
    found = np.sort(np.stack([text_keys(column) for column in columns]), axis=0)
    keys: Keys = found[0]
    for column in found[1:]:
        keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + column  # wraps around
    return keys


def first_rows(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for every row the first row that has the same key."""
    order = np.argsort(keys, kind="stable")
    begins = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[order[1:]], keys[order[:-1]], out=begins[1:])
    first = np.empty(len(keys), dtype=np.int64)
    first[order] = order[np.maximum.accumulate(np.where(begins, np.arange(len(keys)), 0))]
    return first


def numbered(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Number the keys from 0 in order of their first occurrence; equal keys have equal numbers."""
    first = first_rows(keys)
    is_first = first == np.arange(len(first))
    return (np.cumsum(is_first) - 1)[first]
