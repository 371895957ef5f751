"""Times in ISO 8601: in UTC unless they say otherwise, and nothing else."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from palbert.errors import PalbertError
from palbert.runtime.times import read_time


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00", "2026-01-31T12:00Z", "2026-01-31 12:00:00z", "2026-01-31T13:00+01:00"]
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert read_time(text) == datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize("given", ["", "Z", "yesterday", "2026-13-01", "31.01.2026", 20260131, None, {}])
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(PalbertError, match="Expected a date or a time in ISO 8601, such as 2026-01-31 or"):
        read_time(given)
