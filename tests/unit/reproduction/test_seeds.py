"""Statistics over seeds: intervals of differences equal SciPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from palbert.reporting.student_t import T_975
from palbert.reproduction.seeds import MeanDifference, mean_difference, spread


def test_the_table_of_students_t_equals_that_of_scipy() -> None:
    assert pytest.approx([stats.t.ppf(0.975, df) for df in range(1, 31)], abs=6e-4) == list(T_975)


def test_an_interval_of_equal_sets_is_that_of_welch() -> None:
    # With equal sizes and equal variances Welch's degrees of freedom are whole: 2 (n − 1).
    first, second = np.array([0.1, 0.2, 0.4, 0.5]), np.array([0.3, 0.4, 0.6, 0.7])
    found = mean_difference(list(first), list(second))
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found.low == pytest.approx(expected.low, abs=1e-4)
    assert found.high == pytest.approx(expected.high, abs=1e-4)


def test_an_interval_is_never_narrower_than_that_of_welch() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        first, second = generator.normal(0, 1, 3), generator.normal(0.5, generator.uniform(0.1, 3), 5)
        found = mean_difference(list(first), list(second))
        expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
        assert found.low is not None and found.high is not None
        assert found.low <= expected.low + 1e-3 and found.high >= expected.high - 1e-3
        # Nor much wider: at most a fifth, with between one and two degrees of freedom.
        assert found.high - found.low <= 1.2 * (expected.high - expected.low)


def test_an_interval_excludes_what_lies_outside_and_a_missing_one_excludes_nothing() -> None:
    found = mean_difference([0.5, 0.52], [0.4, 0.42])
    assert found.excludes(0.5) and found.excludes(-0.5) and not found.excludes(0.1)
    assert not mean_difference([0.5], [0.4, 0.42]).excludes(9.0)


def test_a_difference_changes_its_sign_with_its_sides() -> None:
    one, other = mean_difference([1.0, 2.0], [4.0, 5.0, 9.0]), mean_difference([4.0, 5.0, 9.0], [1.0, 2.0])
    assert one.value == -other.value
    assert one.low is not None and other.high is not None and one.low == pytest.approx(-other.high)


def test_one_seed_has_no_spread_and_no_interval() -> None:
    assert spread([0.5]).deviation is None
    assert mean_difference([0.5], [0.4, 0.3]).low is None
    assert spread([0.4, 0.6]).deviation == pytest.approx(math.sqrt(0.02))


def test_identical_scores_give_no_interval() -> None:
    found = mean_difference([0.5, 0.5], [0.25, 0.25])
    assert (found.value, found.low, found.high) == (0.25, None, None)


def test_scores_and_differences_are_written_with_three_digits() -> None:
    assert (str(spread([0.5])), str(spread([0.4, 0.6]))) == ("0.500", "0.500 ± 0.141")
    assert str(MeanDifference(0.0304, 0.007, 0.0532)) == "+0.030 (+0.007 … +0.053)"
    assert str(MeanDifference(-0.1, None, None)) == "-0.100"
