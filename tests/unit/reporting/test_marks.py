"""Marks: ticks, samples and averages that represent the data."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.reporting.marks import (
    MOST_POINTS,
    band_means,
    count_tick,
    counted,
    finite_points,
    moving_average,
    percent_tick,
    sampled_rows,
    score_tick,
    stroke,
)
from palbert.reporting.svg import SERIES


def test_ticks_are_short() -> None:
    assert [score_tick(score) for score in (0.5, -0.25, 1.0, 10.05)] == [".500", "-.250", "1.000", "10.050"]
    assert (percent_tick(0.25), count_tick(12345.0)) == ("25\u202f%", "12,345")
    assert counted("dev", np.zeros(1200)) == "dev (1,200)"


def test_a_series_beyond_the_colours_is_dashed() -> None:
    styles = [stroke(index) for index in range(2 * len(SERIES))]
    assert len(set(styles)) == len(styles)
    assert {style for _, style in styles[: len(SERIES)]} == {"-"} and styles[len(SERIES)] == (SERIES[0], "--")


@pytest.mark.parametrize("rows", [0, 1, MOST_POINTS, MOST_POINTS + 1, 20_000])
def test_a_sample_has_different_rows_in_order_and_all_if_they_are_few(rows: int) -> None:
    sample = sampled_rows(rows)
    assert len(sample) == min(rows, MOST_POINTS)
    assert (np.diff(sample) > 0).all() and (len(sample) == 0 or 0 <= sample[0] <= sample[-1] < rows)


def test_points_that_are_not_finite_are_left_out() -> None:
    x, y = finite_points([1, 2, 3, 4], [0.5, float("nan"), float("inf"), 2.0])
    assert (x.tolist(), y.tolist()) == ([1.0, 4.0], [0.5, 2.0])


def test_a_moving_average_keeps_constants_and_the_length_and_averages_the_middle() -> None:
    assert moving_average(np.full(9, 3.0), window=4).tolist() == pytest.approx([3.0] * 9)
    values = np.array([0.0, 3.0, 6.0, 0.0, 0.0])
    assert moving_average(values, window=3).tolist() == pytest.approx([1.5, 3.0, 3.0, 2.0, 0.0])
    assert moving_average(values, window=1).tolist() == values.tolist()


def test_band_means_are_means_of_the_errors_in_each_tenth_of_the_scale() -> None:
    gold = np.array([0.0, 0.4, 4.9, 5.0])
    centres, means = band_means(gold, np.array([1.0, 3.0, -1.0, -2.0]))
    assert centres.tolist() == pytest.approx([0.25, 4.75])  # bands without rows are left out
    assert means.tolist() == pytest.approx([2.0, -1.5])
