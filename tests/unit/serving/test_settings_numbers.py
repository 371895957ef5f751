"""Settings of the service: times and rates are numbers that a clock can count."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import PalbertError
from palbert.serving.settings import Settings

RUN = (("mine", Path("run")),)


@pytest.mark.parametrize("name", ["wait", "rate", "burst", "watch", "drain", "read_timeout"])
@pytest.mark.parametrize("value", [math.inf, math.nan, -1, 1e300])
def test_a_time_or_rate_that_no_clock_can_count_is_refused_with_its_name(name: str, value: float) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(PalbertError, match=rf"^{name}: expected a number from 0 to 1,000,000, found"):
        Settings(RUN, **given)


def test_usual_times_and_rates_are_kept() -> None:
    found = Settings(RUN, wait=0, rate=0.5, burst=1_000_000, watch=10, drain=1)
    assert (found.wait, found.rate, found.burst) == (0, 0.5, 1_000_000)
