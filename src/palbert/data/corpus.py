"""Corpus: distinct texts without labels, some of them held out; long ones are split into pieces."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from palbert.data.ragged import Ragged, ranges
from palbert.errors import DataError

FEWEST_HELD_OUT = 50
"""At least this many texts are held out, unless that is more than a fifth of them."""


@dataclass(frozen=True)
class Corpus:
    """Pieces of texts, as token ids without special tokens."""

    tokens: tuple[Ragged]
    """One column; a piece fits between the special tokens."""
    texts: int
    """The number of texts that the pieces come from."""
    labels: None = None
    """None: masked tokens are the labels."""

    def __len__(self) -> int:
        return len(self.tokens[0])


def split_corpus(columns: Iterable[Ragged], *, room: int, held_out: float, seed: int) -> tuple[Corpus, Corpus]:
    """Return a corpus to train on and one to evaluate on.

    A text that occurs several times, in one column or in two, is used once; no text is in both corpora.

    Args:
        columns: Token ids of texts, without special tokens.
        room: The largest number of tokens of a piece.
        held_out: The share of the texts to evaluate on.
        seed: The seed of the random choice of these texts.

    Raises:
        DataError: There are fewer than two different texts.
    """
    texts = _distinct(Ragged.concatenate(columns))
    if len(texts) < 2:
        raise DataError(
            f"Expected at least two different texts, one to train on and one to hold out, found {len(texts)}.",
            hint="Give more text with --text FILE, or in the tasks' training files.",
        )
    fewest = max(1, min(FEWEST_HELD_OUT, len(texts) // 5))
    count = min(max(round(held_out * len(texts)), fewest), len(texts) - 1)
    order = np.random.default_rng([seed, zlib.crc32(b"held out")]).permutation(len(texts))
    train, evaluation = np.sort(order[count:]), np.sort(order[:count])
    return (
        Corpus((_pieces(texts.take(train), room),), len(train)),
        Corpus((_pieces(texts.take(evaluation), room),), len(evaluation)),
    )


def _distinct(texts: Ragged) -> Ragged:
    """Keep the first of equal texts; drop empty ones."""
    first: dict[bytes, int] = {}
    for row, length in enumerate(texts.lengths):
        if length:
            first.setdefault(texts[row].tobytes(), row)
    return texts.take(np.fromiter(first.values(), dtype=np.int64, count=len(first)))


def _pieces(texts: Ragged, room: int) -> Ragged:
    """Split each text after every `room` tokens; only the offsets change."""
    texts = Ragged.concatenate([texts])  # chosen rows, one after another
    counts = -(-texts.lengths // room)
    starts = np.repeat(texts.offsets[:-1], counts) + room * ranges(np.zeros_like(counts), counts)
    return Ragged(texts.values, np.append(starts, texts.offsets[-1]))
