"""Durations: read from and written as text, such as "1h 30min"."""

from __future__ import annotations

import re

UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
"""Seconds of each unit; words may be in the plural."""
PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def seconds_of(text: str) -> float:
    """Return the seconds of a duration such as "30 min", "2h" or "1h 30min"; raise ValueError for anything else."""
    total, end = 0.0, 0
    while end < len(text) and (part := PART.match(text.lower(), end)):
        unit = part[2] if part[2] in UNITS else part[2].removesuffix("s")
        if unit not in UNITS:
            break
        total, end = total + float(part[1]) * UNITS[unit], part.end()
    if not text or end < len(text):
        raise ValueError('expected a duration such as "90 s", "30 min" or "2h", or a number of seconds')
    return total


def duration_text(seconds: float) -> str:
    """Return a duration for people, with two units at most: 42 s, 1 min 40 s, 12 min, 1 h 20 min."""
    if seconds < 99.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 or seconds == round(seconds) else f"{seconds:.1f} s"
    if seconds < 599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def clock_text(seconds: float) -> str:
    """Return a duration as a clock shows it: 0:42, 12:05, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
