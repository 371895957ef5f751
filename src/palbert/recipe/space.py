"""Spaces: which settings of a recipe a search may change, and between which values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.errors import did_you_mean
from palbert.options import shown
from palbert.recipe.load import read_toml

FOLDER = Path(__file__).parent / "spaces"
GENERAL = FOLDER / "general.toml"
"""The space of those who give none."""
KEYS = ("low", "high", "log", "step")
MEASURE = re.compile(
    r"(seed|data|overall|run(\..*)?|provenance(\..*)?|tasks(\.[^.]+(\.(dev|test|metrics?|held_out))?)?)$"
)
"""Settings that change what is scored, or where: scores of trials could not be compared."""
LARGEST = 2**53
"""Bounds of numbers; whole numbers beyond it are not exact for the search."""
BARE = re.compile(r"[A-Za-z0-9_-]+")

Parameter = bool | int | float | str
"""A value as the search sees it."""


@dataclass(frozen=True)
class Numbers:
    """Numbers between two bounds, both included; whole ones if the bounds and the step are."""

    key: str
    low: float
    high: float
    log: bool = False
    """Whether factors count, as for learning rates, and not differences."""
    step: float | None = None

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole ones."""
        return isinstance(self.low, int)

    @property
    def extremes(self) -> tuple[Parameter, ...]:
        """The values that a recipe is tried with before the search."""
        return (self.low, self.high)

    def setting(self, parameter: Parameter) -> Any:
        """Return the value that a recipe gets."""
        return parameter

    def own(self, value: Any) -> Parameter | None:
        """Return a recipe's value as the search sees it; None if it is not in the space."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return None
        steps = (value - self.low) / (self.step or (1 if self.whole else math.inf))
        return None if not _is_whole(steps) else int(value) if self.whole else float(value)

    def share(self, value: float) -> float:
        """Return where in the range a number is, from 0 to 1."""
        low, high, at = map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return (at - low) / (high - low)

    def described(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"low": self.low, "high": self.high, "log": self.log, "step": self.step}


@dataclass(frozen=True)
class Choices:
    """Some values, of which none is nearer to another: names, parts with options, switches."""

    key: str
    choices: tuple[Any, ...]

    @property
    def labels(self) -> tuple[Parameter, ...]:
        """The choices as the search sees them: tables and lists as their TOML."""
        return tuple(each if isinstance(each, bool | int | float | str) else inline(each) for each in self.choices)

    @property
    def extremes(self) -> tuple[Parameter, ...]:
        """The values that a recipe is tried with before the search: all of them."""
        return self.labels

    def setting(self, parameter: Parameter) -> Any:
        """Return the value that a recipe gets."""
        return self.choices[self.labels.index(parameter)]

    def own(self, value: Any) -> Parameter | None:
        """Return a recipe's value as the search sees it; None if it is not in the space."""
        for label, choice in zip(self.labels, self.choices, strict=True):
            if value in (choice, {"name": choice}):
                return label
        return None

    def described(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"choices": list(self.labels)}


Dimension = Numbers | Choices


@dataclass(frozen=True)
class Space:
    """The settings that a search may change, by key."""

    dimensions: tuple[Dimension, ...]
    name: str = "space"
    """The file, in messages."""
    problems: tuple[str, ...] = ()
    """What is wrong with lines that are not among the dimensions."""

    def overrides(self, parameters: Mapping[str, Parameter]) -> list[str]:
        """Return the settings of a trial as `key=value`; a part comes before its options."""
        chosen = [each for each in self.dimensions if each.key in parameters]
        ordered = sorted(chosen, key=lambda each: each.key.count("."))
        return [f"{each.key}={inline(each.setting(parameters[each.key]))}" for each in ordered]

    def without(self, keys: set[str]) -> Space:
        """Return a space without some of the settings."""
        return Space(tuple(each for each in self.dimensions if each.key not in keys), self.name)

    def toml(self) -> str:
        """Write the space as TOML, which gives the same space when it is read."""
        lines = [f"{inline(each.key)} = {inline(_table(each))}\n" for each in self.dimensions]
        return "".join(["[space]\n", *lines])


def load_space(path: str | Path | Mapping[str, Any]) -> Space:
    """Read a space; what is wrong with it is reported with all that its recipe refuses.

    Args:
        path: A TOML file with a table `[space]`, or that table: `{"training.epochs": {"low": 2, "high": 6}}`.
    """
    if isinstance(path, Mapping):
        name, table = "space", dict(path)
        problems = []
    else:
        name, values = str(path), read_toml(Path(path))
        problems = [f"{key}: unknown key. Known: space." for key in values if key != "space"]
        table = values.get("space", {})
    if not isinstance(table, dict) or not table:
        problems.append(
            'space: expected a table with a line per setting: "optimizer.learning_rate" = { low = 1e-5, ... }.'
        )
        table = {}
    dimensions: list[Dimension] = []
    for key, value in _flat(table):
        found, wrong = _dimension(key, value)
        problems += [f"{key}: {problem}" for problem in wrong]
        dimensions += [found] if found else []
    return Space(tuple(dimensions), name, tuple(problems))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the lines of a space; keys without quotes are tables inside tables to TOML."""
    for key, value in table.items():
        inner = isinstance(value, Mapping) and value and not any(name in value for name in (*KEYS, "choices"))
        if inner and any(isinstance(each, Mapping | list) for each in value.values()):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _dimension(key: str, value: Any) -> tuple[Dimension | None, list[str]]:
    """Return one line of a space, or its problems."""
    if MEASURE.match(key):
        return None, ["cannot be searched: scores of trials could not be compared with each other."]
    if isinstance(value, Mapping) and "choices" in value:
        others = [f"unknown key '{name}' next to choices." for name in value if name != "choices"]
        choices, problems = _choices(key, value["choices"])
        return choices, [*others, *problems]
    if isinstance(value, list | tuple):
        return _choices(key, value)
    if not isinstance(value, Mapping):
        return None, [f"expected a list of choices or {{ low = …, high = … }}, found {shown(value)}."]
    return _numbers(key, value)


def _choices(key: str, given: Any) -> tuple[Choices | None, list[str]]:
    if not isinstance(given, list | tuple) or len(given) < 2:
        return None, [f"expected a list of two or more choices, found {shown(given)}."]
    if wrong := [each for each in given if not _is_plain(each)]:
        return None, [f"the choice {shown(wrong[0])} cannot be a setting of a recipe."]
    found = Choices(key, tuple(given))
    repeated = [
        label for number, label in enumerate(found.labels) if inline(label) in map(inline, found.labels[:number])
    ]
    return found, [f"the choice {shown(label)} is given twice." for label in repeated]


def _numbers(key: str, given: Mapping[str, Any]) -> tuple[Numbers | None, list[str]]:
    problems = [
        f"unknown key '{name}'. {did_you_mean(str(name), (*KEYS, 'choices'))}" for name in given if name not in KEYS
    ]
    problems += [f"{name} is missing." for name in ("low", "high") if name not in given]
    numbers = {name: given[name] for name in ("low", "high", "step") if name in given}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == math.inf:
            problems.append(f"{name}: expected a number, found {shown(value)}.")
        elif not -LARGEST <= value <= LARGEST:
            problems.append(f"{name}: expected a number from {-LARGEST:g} to {LARGEST:g}, found {shown(value)}.")
    log, step = given.get("log", False), given.get("step")
    if not isinstance(log, bool):
        problems.append(f"log: expected true or false, found {shown(log)}.")
    if problems:
        return None, problems
    low, high = numbers["low"], numbers["high"]
    if not low < high:
        problems.append(f"expected low < high, found {low:g} and {high:g}.")
    if log and low <= 0:
        problems.append(f"low: expected a number above 0 where log = true, found {low:g}.")
    if step is not None and (log or not 0 < step <= high - low):
        problems.append(
            "step: cannot be used with log." if log else f"step: expected more than 0 and up to {high - low:g}."
        )
    elif step is not None and not _is_whole((high - low) / step):
        problems.append(f"step: expected high − low to be a multiple of it, found {shown(step)}.")
    whole = all(isinstance(value, int) for value in numbers.values())
    low, high = (low, high) if whole else (float(low), float(high))
    return Numbers(key, low, high, log=log, step=step), problems


def _is_whole(steps: float) -> bool:
    return math.isfinite(steps) and abs(steps - round(steps)) <= 1e-9


def _is_plain(value: Any) -> bool:
    """Whether a value is one that recipes have: TOML has dates too, and Python everything else."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, value.values()))
    return (
        all(map(_is_plain, value)) if isinstance(value, list | tuple) else isinstance(value, bool | int | float | str)
    )


def own_parameters(space: Space, values: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the parameters that stand for a recipe's own settings, as far as they are in the space.

    Args:
        space: The space.
        values: The recipe's settings, those left out that are still to be chosen.
    """
    found = {each.key: each.own(_value_at(values, each.key)) for each in space.dimensions}
    return {key: value for key, value in found.items() if value is not None}


def _value_at(values: Any, key: str) -> Any:
    for part in key.split("."):
        if isinstance(values, list | tuple) and part.isdigit() and int(part) < len(values):
            values = values[int(part)]
        elif isinstance(values, Mapping) and part in values:
            values = values[part]
        else:
            return None
    return values


def inline(value: Any) -> str:
    """Write a value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = (f"{key if BARE.fullmatch(key) else inline(key)} = {inline(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    return "[" + ", ".join(map(inline, value)) + "]"


def _table(dimension: Dimension) -> Any:
    if isinstance(dimension, Choices):
        return list(dimension.choices)
    values = {"low": dimension.low, "high": dimension.high, "log": dimension.log or None, "step": dimension.step}
    return {key: value for key, value in values.items() if value is not None}
