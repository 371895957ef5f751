"""Options: the checks of what a user gives to a named part, so that every part refuses in the same words.

A part checks its options where it is made. The messages begin with the option's name; `build` puts the place in the
recipe before it.
"""

from __future__ import annotations

import math

from palbert.errors import PalbertError


def check_number(
    name: str,
    value: float,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
    finite: bool = True,
) -> float:
    """Return a number that lies within its bounds; `above` and `below` are themselves outside."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    within = number and least <= value <= most and (value > above or above == -math.inf)
    within = within and (value < below or below == math.inf)
    if not within or (finite and not math.isfinite(value)):
        bounds = {"from": least, "above": above, "below": below, "up to": most}
        said = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
        raise PalbertError(f"{name}: expected a number{' ' * bool(said)}{said}, found {value!r}.")
    return value


def check_count(name: str, value: int, *, least: int = 0) -> int:
    """Return a whole number that is not below the least."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PalbertError(f"{name}: expected a whole number from {least}, found {value!r}.")
    return value


def check_switch(name: str, value: bool) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise PalbertError(f"{name}: expected true or false, found {value!r}.")
    return value
