"""Options: checks of the values that users give to named parts, with the same messages for all parts.

A part checks its options where it is made. Its messages begin with the option's name; `build` puts the place in the
recipe in front.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Collection, Mapping
from typing import Any

from palbert.errors import PalbertError, RecipeError, did_you_mean

LARGEST_FLOAT, SMALLEST_FLOAT = 2.0**128 - 2.0**104, 2.0**-126
"""The range of float32, in which models compute: the largest number, and the smallest one above 0."""
IN_FLOAT32 = f"that float32 can hold ({SMALLEST_FLOAT:.2g} to {LARGEST_FLOAT:.2g}, or 0)"
MOST = 1_000_000_000
"""The largest whole number that a setting can be: of steps, rows, tokens, sizes, … A seed may be larger."""


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
    """Return a number if it is within its bounds; `above` and `below` are exclusive."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    number = number and not (isinstance(value, int) and abs(value) > sys.float_info.max)  # no float can hold it
    within = number and least <= value <= most and (value > above or above == -math.inf)
    within = within and (value < below or below == math.inf)
    if not within or (finite and not math.isfinite(value)):
        bounds = {"from": least, "above": above, "below": below, "up to": most}
        described = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
        raise PalbertError(f"{name}: expected a number{' ' * bool(described)}{described}, found {shown(value)}.")
    if not fits_float32(value):
        raise PalbertError(f"{name}: expected a number {IN_FLOAT32}, found {shown(value)}.")
    return value


def fits_float32(value: float) -> bool:
    """Whether float32 holds a number, and does not make 0 or infinity of it."""
    return value == 0 or not math.isfinite(value) or SMALLEST_FLOAT <= abs(value) <= LARGEST_FLOAT


def check_count(name: str, value: int, *, least: int = 0, most: int = MOST) -> int:
    """Return a whole number if it is within its bounds."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        upper = f" to {most:,}" if most < MOST or (whole and value > most) else ""
        raise PalbertError(f"{name}: expected a whole number from {least}{upper}, found {shown(value)}.")
    return value


def shown(value: Any) -> str:
    """Return how Python writes a value, cut where that is long."""
    try:
        text = repr(value)
    except ValueError:  # Python limits the digits of a whole number
        return "a whole number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:79]}…"


def check_switch(name: str, value: bool) -> bool:
    """Return a value if it is true or false."""
    if not isinstance(value, bool):
        raise PalbertError(f"{name}: expected true or false, found {shown(value)}.")
    return value


def takes(part: Any, name: str) -> bool:
    """Whether a class or function has an argument of this name."""
    return name in inspect.signature(part).parameters


def check_options(
    part: Any, arguments: Collection[Any], settings: Mapping[str, Any], options: Mapping[str, Any], place: str
) -> None:
    """Raise RecipeError for options that are unknown, missing or set by palbert; it lists all of them.

    Args:
        part: The class or function that takes the options.
        arguments: What palbert passes by position.
        settings: What palbert passes by name.
        options: What the recipe gives.
        place: Where the recipe gives it.
    """
    signature = inspect.signature(part)
    parameters = list(signature.parameters.values())[len(arguments) :]
    named = [each for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    known = [each.name for each in named if each.name not in settings] + list(getattr(part, "shared_options", ()))
    problems = [f"'{name}' is not an option: palbert sets it. Leave it out." for name in options if name in settings]
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        unknown = [name for name in options if name not in known and name not in settings]
        problems += [f"unknown option '{name}'. {_known_options(name, known)}" for name in unknown]
    required = [each.name for each in named if each.default is each.empty]
    problems += [f"option '{name}' is missing." for name in required if name not in settings and name not in options]
    if problems:
        raise RecipeError("\n".join(f"{place}: {problem}" for problem in problems))
    try:
        signature.bind(*arguments, **settings, **options)
    except TypeError as error:  # a user's own class does not take what palbert passes
        raise RecipeError(f"{place}: {error}.") from error


def _known_options(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known) if known else "It takes no options."
