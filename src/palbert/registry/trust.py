"""Trust: which code from outside palbert may be imported, by its name, "module:Class". No torch.

A recipe that the user gives allows the code that it names. Runs and checkpoints may come from strangers: what they
name is imported only if it was allowed before, or within `trusting`, which `--trust` and `trust=True` enter.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from palbert.errors import TrustError

OWN_CLASS = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")
"""A class that is not in a table, as a recipe names it: "module:Class"."""
KEYS = frozenset({
    "adapters", "average", "balance", "gradients", "head", "loss", "metric", "metrics", "objectives", "pooling",
    "relation", "sampler", "schedule", "target",
})  # fmt: skip
"""The settings of recipes and checkpoints that name parts."""
REMEDY = "If you trust where it comes from, add --trust (in Python: trust=True)."

_allowed: set[str] = set()
_trusting: ContextVar[bool] = ContextVar("trusting", default=False)

log = logging.getLogger(__name__)


@contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Allow the code that runs and checkpoints name, inside of the block."""
    former = _trusting.set(trust or _trusting.get())
    try:
        yield
    finally:
        _trusting.reset(former)


def is_trusting() -> bool:
    """Whether the code that runs and checkpoints name is allowed."""
    return _trusting.get()


def allow(*names: str) -> None:
    """Allow names that the user gives."""
    _allowed.update(names)


def allow_named_by(found: Any) -> None:
    """Allow the names that a loaded class gives in its attributes, such as the losses of a target."""
    for cls in getattr(found, "__mro__", ()):
        for value in vars(cls).values():
            allow(*(name for name in (value if isinstance(value, tuple) else (value,)) if _is_own(name)))


def allow_recipe(values: Any, source: str) -> None:
    """Allow the code that the nested values of a user's recipe name, and log it once."""
    _allow(outside_names(values), source)


def admit(values: Any, source: str) -> None:
    """Raise TrustError if the nested values of a run or checkpoint name code that is not allowed."""
    unknown = {name: places for name, places in outside_names(values).items() if name not in _allowed}
    if unknown and not is_trusting():
        raise TrustError(f"{source}: names code from outside palbert, which would run: {_list(unknown)}.", hint=REMEDY)
    _allow(unknown, source)


def check_name(name: str, prefix: str = "") -> None:
    """Raise TrustError if the code of one name is not allowed."""
    if name in _allowed:
        return
    if not is_trusting():
        raise TrustError(f"{prefix}'{name}' is code from outside palbert.", hint=REMEDY)
    _allow({name: []}, prefix.removesuffix(": ") or "This run")


def outside_names(values: Any) -> dict[str, list[str]]:
    """Return each "module:Class" in the nested values of a recipe or checkpoint, with the places that name it."""
    found: dict[str, list[str]] = {}
    for name, place in _names(values, ()):
        if place not in found.setdefault(name, []):
            found[name].append(place)
    return found


def _names(values: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield names with their places: strings under one of the keys, in a list there, or as the `name` of a table."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _names(value, (*path, str(key)))
    elif isinstance(values, list | tuple):
        for number, value in enumerate(values):
            yield from _names(value, (*path, str(number)))
    elif _is_own(values):
        place = path[:-1] if path and path[-1] == "name" else path
        setting = place[:-1] if place and place[-1].isdigit() else place
        if setting and setting[-1] in KEYS:
            yield values, ".".join(place)


def _is_own(value: Any) -> bool:
    return isinstance(value, str) and OWN_CLASS.match(value) is not None


def _allow(names: Mapping[str, list[str]], source: str) -> None:
    new = {name: places for name, places in names.items() if name not in _allowed}
    if new:
        log.info("%s loads code from outside palbert: %s", source, _list(new))
    _allowed.update(new)


def _list(names: Mapping[str, list[str]]) -> str:
    return ", ".join(f"{name} ({', '.join(places)})" if places else name for name, places in names.items())
