"""Seeds: intervals of differences equal SciPy's, and verdicts follow from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from palbert.reproduction.seeds import T_975, gap, spread
from palbert.reproduction.verdicts import judge, together


def test_the_table_of_students_t_is_scipys() -> None:
    assert pytest.approx([stats.t.ppf(0.975, df) for df in range(1, 31)], abs=6e-4) == list(T_975)


def test_an_interval_of_equal_sets_is_welchs() -> None:
    # With equal sizes and equal variances Welch's degrees of freedom are whole: 2 (n − 1).
    first, second = np.array([0.1, 0.2, 0.4, 0.5]), np.array([0.3, 0.4, 0.6, 0.7])
    found = gap(list(first), list(second))
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found.low == pytest.approx(expected.low, abs=1e-4)
    assert found.high == pytest.approx(expected.high, abs=1e-4)


def test_an_interval_is_never_narrower_than_welchs() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        first, second = generator.normal(0, 1, 3), generator.normal(0.5, generator.uniform(0.1, 3), 5)
        found = gap(list(first), list(second))
        expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
        assert found.low is not None and found.high is not None
        assert found.low <= expected.low + 1e-3 and found.high >= expected.high - 1e-3
        # Nor much wider: at most a fifth, where there are between one and two degrees of freedom.
        assert found.high - found.low <= 1.2 * (expected.high - expected.low)


def test_an_interval_excludes_what_lies_outside_and_nothing_where_there_is_none() -> None:
    found = gap([0.5, 0.52], [0.4, 0.42])
    assert found.excludes(0.5) and found.excludes(-0.5) and not found.excludes(0.1)
    assert not gap([0.5], [0.4, 0.42]).excludes(9.0)


def test_a_gap_changes_its_sign_with_its_sides() -> None:
    one, other = gap([1.0, 2.0], [4.0, 5.0, 9.0]), gap([4.0, 5.0, 9.0], [1.0, 2.0])
    assert one.difference == -other.difference
    assert one.low is not None and other.high is not None and one.low == pytest.approx(-other.high)


def test_one_seed_has_no_spread_and_no_interval() -> None:
    assert spread([0.5]).deviation is None
    assert gap([0.5], [0.4, 0.3]).low is None
    assert spread([0.4, 0.6]).deviation == pytest.approx(math.sqrt(0.02))


def test_seeds_with_the_very_same_score_tell_no_spread() -> None:
    found = gap([0.5, 0.5], [0.25, 0.25])
    assert (found.difference, found.low, found.high) == (0.25, None, None)
    assert judge([0.5, 0.5], [0.25, 0.25], least=0.0, most=math.inf).word == "undecided"


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ([0.9, 0.9, 0.91], [0.5, 0.51, 0.5], "holds"),
        ([0.5, 0.51, 0.5], [0.9, 0.9, 0.91], "does not hold"),
        ([0.5, 0.9, 0.1], [0.5, 0.2, 0.6], "undecided"),
        ([0.501, 0.499, 0.5], [0.5, 0.501, 0.499], "no difference"),
        ([0.9], [0.5, 0.5], "one seed"),
        ([], [0.5, 0.5], "not run"),
    ],
)
def test_a_verdict_follows_from_the_interval(first: list[float], second: list[float], word: str) -> None:
    assert judge(first, second, least=0.0, most=math.inf).word == word


def test_nothing_changes_is_a_claim_that_a_wide_interval_does_not_prove() -> None:
    narrow = judge([0.5, 0.501, 0.499], [0.5, 0.5, 0.501], least=-0.01, most=0.01)
    wide = judge([0.4, 0.6], [0.45, 0.55], least=-0.01, most=0.01)
    assert (narrow.word, wide.word) == ("holds", "undecided")


def test_several_differences_hold_only_together() -> None:
    assert together(["holds", "holds"]) == "holds"
    assert together(["holds", "undecided"]) == "undecided"
    assert together(["holds", "does not hold", "not run"]) == "does not hold"
