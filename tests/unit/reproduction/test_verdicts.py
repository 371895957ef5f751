"""Verdicts: they follow from the interval of a difference."""

from __future__ import annotations

import math

import pytest

from palbert.reproduction.verdicts import judge, worst_outcome


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ([0.9, 0.9, 0.91], [0.5, 0.51, 0.5], "holds"),
        ([0.5, 0.51, 0.5], [0.9, 0.9, 0.91], "does not hold"),
        ([0.5, 0.9, 0.1], [0.5, 0.2, 0.6], "undecided"),
        ([0.501, 0.499, 0.5], [0.5, 0.501, 0.499], "no difference"),
        ([0.9], [0.5, 0.5], "one seed"),
        ([], [0.5, 0.5], "not run"),
        ([0.5, 0.5], [0.25, 0.25], "undecided"),  # identical scores give no interval
    ],
)
def test_a_verdict_follows_from_the_interval(first: list[float], second: list[float], outcome: str) -> None:
    verdict = judge(first, second, least=0.0, most=math.inf)
    assert verdict.outcome == outcome and verdict.seeds == (len(first), len(second))
    assert (verdict.difference is None) == (outcome == "not run")


def test_a_wide_interval_does_not_prove_that_nothing_changes() -> None:
    narrow = judge([0.5, 0.501, 0.499], [0.5, 0.5, 0.501], least=-0.01, most=0.01)
    wide = judge([0.4, 0.6], [0.45, 0.55], least=-0.01, most=0.01)
    assert (narrow.outcome, wide.outcome) == ("holds", "undecided")


def test_an_upper_bound_is_judged_like_a_lower_one() -> None:
    high, low = [0.9, 0.9, 0.91], [0.5, 0.51, 0.5]
    assert judge(high, low, least=-math.inf, most=0.0).outcome == "does not hold"
    assert judge(low, high, least=-math.inf, most=0.0).outcome == "holds"


def test_a_claim_of_several_differences_needs_all_of_them() -> None:
    assert worst_outcome(["holds", "holds"]) == "holds"
    assert worst_outcome(["holds", "undecided"]) == "undecided"
    assert worst_outcome(["holds", "does not hold", "not run"]) == "does not hold"
