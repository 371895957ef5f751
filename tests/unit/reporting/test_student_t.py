"""Student's t, compared with scipy."""

from __future__ import annotations

import pytest
from scipy import stats

from palbert.reporting.student_t import mean_interval, student_t


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 30])
def test_t_is_that_of_scipy(freedom: int) -> None:
    assert student_t(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=5e-4)


def test_the_interval_of_a_mean_is_that_of_scipy() -> None:
    values = [0.81, 0.79, 0.86, 0.80, 0.84]
    expected = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx(expected, abs=1e-4)
