"""Wording: numbers and scores as text."""

from __future__ import annotations

import pytest

from palbert.reporting.wording import Score, count, duration, number, percent, plural, signed, size


def test_numbers_have_a_true_minus_sign_and_a_dash_for_none() -> None:
    assert (number(-0.1234), number(None), number(2.0, 0)) == ("−0.123", "–", "2")
    assert (signed(0.5, 1), signed(-0.5, 1), signed(None)) == ("+0.5", "−0.5", "–")
    assert (signed(-0.0), signed(0.0), signed(-0.00004, 4), signed(0.0001, 4)) == (
        "0.000",
        "0.000",
        "0.0000",
        "+0.0001",
    )


@pytest.mark.parametrize(
    ("share", "text"), [(0.5, "50.0\u202f%"), (0.0, "0.0\u202f%"), (0.0001, "<\u202f0.1\u202f%"), (1.0, "100.0\u202f%")]
)
def test_a_share_is_a_percentage_and_a_small_one_is_not_0(share: float, text: str) -> None:
    assert percent(share) == text


def test_counts_and_units() -> None:
    assert (count(12345.6), plural(1, "row"), plural(1000, "row")) == ("12,346", "1 row", "1,000 rows")
    assert (duration(3.21), duration(61), duration(3725)) == (
        "3.2\u202fs",
        "1\u202fmin 01\u202fs",
        "1\u202fh 02\u202fmin",
    )
    assert (size(900), size(1500), size(2.5e6)) == ("900", "1.5\u202fk", "2.5\u202fM")


def test_a_gain_follows_the_direction_of_the_metric() -> None:
    assert Score("accuracy", 0.8).gain_over(0.5) == pytest.approx(0.3)
    assert Score("mse", 0.8).gain_over(0.5) == pytest.approx(-0.3)
    assert Score("a metric of another day", 0.8).higher_is_better


def test_a_score_beats_another_clearly_if_its_whole_interval_does() -> None:
    assert Score("accuracy", 0.8, 0.7, 0.9).clearly_beats(0.6) and not Score("accuracy", 0.8, 0.7, 0.9).clearly_beats(
        0.75
    )
    assert Score("mae", 0.3, 0.2, 0.4).clearly_beats(0.5) and not Score("mae", 0.3, 0.2, 0.4).clearly_beats(0.35)
    assert not Score("accuracy", 0.8).clearly_beats(0.1)


def test_an_interval_is_written_as_numbers_or_percentages() -> None:
    score = Score("accuracy", 0.8, 0.75, 0.85)
    assert score.interval_text() == "0.750 to 0.850"
    assert score.interval_text(as_percent=True) == "75.0 to 85.0\u202f%"
    assert Score("accuracy", 0.8).interval_text() == ""
