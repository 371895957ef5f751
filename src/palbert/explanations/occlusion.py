"""Occlusion: what a model answers when words are masked, alone or in pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palbert.explanations.explained import Explained
from palbert.explanations.explanation import Interactions
from palbert.explanations.row import Row

Numbers = NDArray[np.float64]

MOST_WORDS = 16
"""Words of each text whose interactions are computed: 256 masked rows at most."""


def outputs_without(explained: Explained, row: Row, left_out: Sequence[Sequence[int]], token: int) -> Numbers:
    """Return the output for each list of words that are masked, (lists,)."""
    found = [
        explained.values(row.masked(left_out[chunk], token)) for chunk in explained.chunks(len(left_out), row.tokens)
    ]
    return np.concatenate(found)


def occlusion(explained: Explained, row: Row, token: int) -> tuple[Numbers, float, float]:
    """Return f(x) − f(x without the word) of each word, then f(x), and f with all words masked."""
    everything = range(len(row.words))
    found = outputs_without(explained, row, [[], everything, *([word] for word in everything)], token)
    return found[0] - found[2:], float(found[0]), float(found[1])


def interactions(
    explained: Explained, row: Row, token: int, *, alone: Numbers | None = None, most: int = MOST_WORDS
) -> Interactions:
    """Return f(x) − f(x without i) − f(x without j) + f(x without both) for words i and j of the two texts.

    0 where words add up, whatever each does alone.

    Args:
        explained: The number f.
        row: The pair.
        token: What stands for a masked word.
        alone: The scores by `occlusion`, if they are there.
        most: Words of each text; of more, those that change the output most when they are masked.
    """
    scores = occlusion(explained, row, token)[0] if alone is None else alone
    first, second = (_strongest(row, scores, column, most) for column in (0, 1))
    pairs = [
        [],
        *([one] for one in first),
        *([two] for two in second),
        *([one, two] for one in first for two in second),
    ]
    whole, *rest = outputs_without(explained, row, pairs, token)
    without_first, without_second = np.array(rest[: len(first)]), np.array(rest[len(first) : len(first) + len(second)])
    without_both = np.array(rest[len(first) + len(second) :]).reshape(len(first), len(second))
    values = whole - without_first[:, None] - without_second + without_both
    return Interactions(
        first=tuple(first),
        second=tuple(second),
        values=tuple(tuple(map(float, line)) for line in values),
        left_out=len(row.words) - len(first) - len(second),
    )


def _strongest(row: Row, scores: Numbers, column: int, most: int) -> list[int]:
    """Return the words of a text with the largest scores of either sign, in the order of the text."""
    own = np.array([number for number, word in enumerate(row.words) if word.column == column], dtype=np.int64)
    chosen = own[np.argsort(-np.abs(scores[own]), kind="stable")[:most]]
    return sorted(int(number) for number in chosen)
