"""Verdicts: whether a claim about a difference between rows holds, from the scores of their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from palbert.reproduction.seeds import Gap, gap

Word = Literal["holds", "does not hold", "no difference", "undecided", "one seed", "not run"]

SMALL = 0.01
"""Differences within this are none to speak of: less than what reports call an improvement."""


@dataclass(frozen=True)
class Verdict:
    """What was found about a difference."""

    word: Word
    gap: Gap | None
    """None where a side was not run."""
    seeds: tuple[int, int]
    """How many runs each side has."""


def judge(first: Sequence[float], second: Sequence[float], *, least: float, most: float) -> Verdict:
    """Say whether the difference of the means lies between `least` and `most`, as far as its interval tells."""
    seeds = (len(first), len(second))
    if not first or not second:
        return Verdict("not run", None, seeds)
    found = gap(first, second)
    if found.low is None or found.high is None:
        return Verdict("one seed" if min(seeds) == 1 else "undecided", found, seeds)
    if least <= found.low and found.high <= most:
        return Verdict("holds", found, seeds)
    if found.high < least or found.low > most:
        return Verdict("does not hold", found, seeds)
    none = found.low >= -SMALL and found.high <= SMALL
    return Verdict("no difference" if none else "undecided", found, seeds)


def together(words: Sequence[Word]) -> Word:
    """Return the verdict on several differences that all have to hold: the worst of them."""
    order: tuple[Word, ...] = ("does not hold", "not run", "one seed", "undecided", "no difference", "holds")
    return min(words, key=order.index)
