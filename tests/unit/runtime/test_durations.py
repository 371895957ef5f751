"""Durations: what people write becomes seconds, and seconds become what people read."""

from __future__ import annotations

import pytest

from palbert.runtime.durations import clock_text, duration_text, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 s", 90),
        ("45sec", 45),
        ("30 min", 1800),
        ("30 minutes", 1800),
        ("2h", 7200),
        ("2 Hours", 7200),
        ("1h 30min", 5400),
        ("1.5h", 5400),
        ("1 day", 86400),
    ],
)
def test_a_duration_is_a_sum_of_numbers_with_units(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "30", "30 parsecs", "2h later", "h", "-5 min", "1h30"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='such as "90 s", "30 min" or "2h"'):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.23, "1.2 s"),
        (42.4, "42 s"),
        (99, "99 s"),
        (100, "1 min 40 s"),
        (720, "12 min"),
        (3599, "1 h"),
        (4800, "1 h 20 min"),
        (86400, "24 h"),
        (200_000, "2 d 8 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (725, "12:05"), (3723, "1:02:03")])
def test_a_clock_shows_hours_only_if_there_are_any(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(100, "1 min 40 s"), (120, "2 min"), (599.7, "10 min"), (660, "11 min")])
def test_a_few_minutes_are_written_with_their_seconds(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
