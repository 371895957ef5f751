"""Plan: how long a search goes on, and what is kept of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from palbert.errors import PalbertError
from palbert.runtime.durations import seconds_of


@dataclass(frozen=True)
class Plan:
    """How long a search goes on, and what is kept of it."""

    trials: int
    """Trials in all, those of former calls included."""
    limit: float
    """Seconds of this call; infinity without a limit."""
    jobs: int
    """Runs at a time."""
    keep: float
    """Of how many best trials the checkpoints are kept."""
    confirm: int
    """Fresh seeds that the best recipe is trained with at the end."""


def make_plan(*, trials: int, time: float | str | None, jobs: int, keep: int | None, confirm: int) -> Plan:
    """Return a plan; refuse all numbers that make no sense together."""
    least = {"trials": (trials, 1), "jobs": (jobs, 1), "confirm": (confirm, 0)}
    least |= {} if keep is None else {"keep": (keep, 1)}
    wrong = [f"{name}: expected {low} or more, found {value}." for name, (value, low) in least.items() if value < low]
    limit = math.inf
    try:
        is_text = isinstance(time, str) and not time.strip().replace(".", "", 1).isdecimal()
        limit = math.inf if time is None else seconds_of(str(time)) if is_text else float(time)
    except ValueError as error:
        wrong.append(f"time: {error}, found '{time}'.")
    if not limit > 0:
        wrong.append(f"time: expected more than 0 seconds, found {time}.")
    if wrong:
        raise PalbertError("\n".join(wrong))
    return Plan(trials, limit, jobs, math.inf if keep is None else keep, confirm)
