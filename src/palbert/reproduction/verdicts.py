"""Verdicts: whether a claim about the difference between two rows holds, given the scores of their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from palbert.reproduction.seeds import MeanDifference, mean_difference

Outcome = Literal["holds", "does not hold", "no difference", "undecided", "one seed", "not run"]

NEGLIGIBLE = 0.01
"""Differences up to this size are not notable: reports do not call them an improvement."""
WORST_FIRST: tuple[Outcome, ...] = ("does not hold", "not run", "one seed", "undecided", "no difference", "holds")


@dataclass(frozen=True)
class Verdict:
    """The verdict on one difference."""

    outcome: Outcome
    difference: MeanDifference | None
    """None if either row was not run."""
    seeds: tuple[int, int]
    """The number of runs of each row."""


def judge(first: Sequence[float], second: Sequence[float], *, least: float, most: float) -> Verdict:
    """Judge whether the difference of the means lies between `least` and `most`, by its interval."""
    seeds = (len(first), len(second))
    if not first or not second:
        return Verdict("not run", None, seeds)
    found = mean_difference(first, second)
    if found.low is None or found.high is None:
        return Verdict("one seed" if min(seeds) == 1 else "undecided", found, seeds)
    if least <= found.low and found.high <= most:
        return Verdict("holds", found, seeds)
    if found.high < least or found.low > most:
        return Verdict("does not hold", found, seeds)
    negligible = found.low >= -NEGLIGIBLE and found.high <= NEGLIGIBLE
    return Verdict("no difference" if negligible else "undecided", found, seeds)


def worst_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a claim about several differences that must all hold."""
    return min(outcomes, key=WORST_FIRST.index)
