"""Times: read from text in ISO 8601."""

from __future__ import annotations

from datetime import datetime, timezone

from palbert.errors import PalbertError


def read_time(text: object) -> datetime:
    """Read a date or a time in ISO 8601, which is UTC unless it says otherwise; raise PalbertError for others."""
    try:
        if not isinstance(text, str):
            raise ValueError
        time = datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text)
    except ValueError:
        expected = "a date or a time in ISO 8601, such as 2026-01-31 or 2026-01-31T12:00"
        raise PalbertError(f"Expected {expected}, found {text!r}.") from None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
