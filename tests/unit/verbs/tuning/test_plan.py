"""Plan: numbers that make sense, and those that do not."""

from __future__ import annotations

import math

import pytest

from palbert.errors import PalbertError
from palbert.verbs.tuning.plan import Plan, make_plan

GOOD = {"trials": 40, "time": None, "jobs": 1, "keep": 3, "confirm": 3}


def test_limits_are_seconds_or_text() -> None:
    assert make_plan(**GOOD) == Plan(40, math.inf, 1, 3, 3)  # type: ignore[arg-type]
    for given, seconds in ((90, 90.0), ("90", 90.0), ("1.5", 1.5), ("2h", 7200.0), ("1h 30min", 5400.0)):
        assert make_plan(**{**GOOD, "time": given}).limit == seconds  # type: ignore[arg-type]
    assert make_plan(**{**GOOD, "keep": None}).keep == math.inf  # type: ignore[arg-type]


def test_numbers_that_make_no_sense_are_refused_together() -> None:
    with pytest.raises(PalbertError) as caught:
        make_plan(trials=0, jobs=0, keep=0, confirm=-1, time="soon")
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "trials",
        "jobs",
        "confirm",
        "keep",
        "time",
    ]
    for wrong in (0, -3, "0 s", math.nan):
        with pytest.raises(PalbertError, match="time: expected more than 0 seconds"):
            make_plan(**{**GOOD, "time": wrong})  # type: ignore[arg-type]
