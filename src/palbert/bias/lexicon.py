"""Lexicon: which words name a group of people, and which take their place for another group; read from TOML."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from palbert.bias.words import words_of
from palbert.errors import DataError, did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OWN = Path(__file__).parent / "lexicon.toml"
ROLES = ("", "subject", "object", "determiner", "possessive", "adjective", "noun", "plural", "name")
AXIS_KEYS = ("groups", "words", "keep", "unless", "no_names", "replace")


@dataclass(frozen=True)
class Words:
    """Words that take each other's place, one for each group that has one."""

    forms: Mapping[str, str]
    """By group."""
    role: str = ""
    """The part that they play in a sentence, where one of them can play several."""
    before: frozenset[str] = frozenset()
    """The words count only in front of one of these; anywhere unless given."""


@dataclass(frozen=True)
class Axis:
    """One way in which people differ, cut into a few groups."""

    name: str
    groups: tuple[str, ...]
    words: tuple[Words, ...]
    keep: tuple[str, ...] = ()
    """Phrases in which no word counts."""
    unless: tuple[str, ...] = ()
    """Words with which a text is left out."""
    no_names: bool = False
    """Whether texts with a person's name are left out."""


@dataclass(frozen=True)
class Lexicon:
    """All axes by name."""

    axes: Mapping[str, Axis]


def read_lexicon(own: str | PathLike[str] | None = None) -> Lexicon:
    """Read palbert's lexicon, with the axes and words of another file added to it.

    Args:
        own: A TOML file of the same form. Its words come first; an axis with `replace = true` replaces ours.
    """
    values = _parse(OWN)
    place = OWN
    if own is not None:
        place = Path(own)
        values = _merged(values, _parse(place))
    lists = {name: frozenset(map(str.lower, words)) for name, words in values["lists"].items()}
    return Lexicon({name: _axis(place, name, each, lists) for name, each in values["axes"].items()})


def _parse(path: Path) -> dict[str, Any]:
    """Read the tables of a file; raise DataError unless it has the form of a lexicon."""
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.", hint="Give a TOML file.") from None
    except (ValueError, RecursionError) as error:  # of the syntax, the encoding, long numbers or deep nesting
        raise DataError(f"{path}: not a TOML file: {error}.", hint="See docs/guides/bias.md for an example.") from None
    for key in values:
        if key not in ("axes", "lists"):
            raise DataError(f"{path}: unknown key '{key}'.", hint=did_you_mean(key, ("axes", "lists")))
    axes, lists = values.setdefault("axes", {}), values.setdefault("lists", {})
    tables = (
        isinstance(axes, dict) and isinstance(lists, dict) and all(isinstance(each, dict) for each in axes.values())
    )
    if not tables or not (axes or lists):
        raise DataError(f"{path}: expected tables [axes.NAME], found none.", hint="See docs/guides/bias.md.")
    for name, words in lists.items():
        _texts(path, f"lists.{name}", words)
    for name, each in axes.items():
        for key in each:
            if key not in AXIS_KEYS:
                raise DataError(f"{path}: axes.{name}: unknown key '{key}'.", hint=did_you_mean(key, AXIS_KEYS))
        for key in ("groups", "keep", "unless"):
            _texts(path, f"axes.{name}.{key}", each.get(key, []))
        if not isinstance(each.get("words", []), list):
            raise DataError(f"{path}: axes.{name}.words: expected a list of tables, found {each['words']!r:.60}.")
    return values


def _merged(ours: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Add what another file has to our tables: its words in front, its axes at the end."""
    lists = {name: [*ours["lists"].get(name, []), *words] for name, words in others["lists"].items()}
    axes = dict(ours["axes"])
    for name, each in others["axes"].items():
        if name not in axes or each.get("replace"):
            axes[name] = each
            continue
        axes[name] = {
            **axes[name],
            **each,
            **{key: [*each.get(key, []), *axes[name].get(key, [])] for key in ("words", "keep", "unless")},
            "groups": list(dict.fromkeys([*axes[name]["groups"], *each.get("groups", [])])),
        }
    return {"lists": {**ours["lists"], **lists}, "axes": axes}


def _axis(path: Path, name: str, values: Mapping[str, Any], lists: Mapping[str, frozenset[str]]) -> Axis:
    place = f"axes.{name}"
    groups = tuple(values.get("groups", []))
    if len(set(groups)) < 2 or len(set(groups)) < len(groups):
        raise DataError(f"{path}: {place}.groups: expected two or more different names, found {list(groups)}.")
    entries = values.get("words", [])
    if not entries:
        raise DataError(f"{path}: {place}.words: expected a list of tables, found none.")
    words = tuple(_words(path, f"{place}.words.{number}", each, groups, lists) for number, each in enumerate(entries))
    _check_groups(path, place, words)
    return Axis(
        name=name,
        groups=groups,
        words=words,
        keep=tuple(values.get("keep", [])),
        unless=tuple(values.get("unless", [])),
        no_names=values.get("no_names", False) is True,
    )


def _words(path: Path, place: str, entry: Any, groups: tuple[str, ...], lists: Mapping[str, frozenset[str]]) -> Words:
    if not isinstance(entry, dict):
        raise DataError(f"{path}: {place}: expected a table of words by group, found {entry!r:.60}.")
    forms = {key: value for key, value in entry.items() if key not in ("as", "before")}
    for group, form in forms.items():
        if group not in groups:
            raise DataError(f"{path}: {place}: unknown group '{group}'.", hint=did_you_mean(group, groups))
        if not isinstance(form, str) or not words_of(form):
            raise DataError(f"{path}: {place}.{group}: expected a word, found {form!r:.60}.")
    if len(forms) < 2:
        raise DataError(f"{path}: {place}: expected words for two or more groups, found {len(forms)}.")
    role, before = entry.get("as", ""), entry.get("before")
    if role not in ROLES:
        raise DataError(f"{path}: {place}.as: unknown part '{role}'.", hint=f"There are: {', '.join(ROLES[1:])}.")
    if before is not None and not (isinstance(before, str) and before in lists):
        raise DataError(f"{path}: {place}.before: no list '{before}'.", hint=did_you_mean(str(before), lists))
    return Words(forms, role, lists[before] if before is not None else frozenset())


def _check_groups(path: Path, place: str, words: tuple[Words, ...]) -> None:
    """Raise DataError for a word that would name two groups."""
    group_of: dict[str, str] = {}
    for each in words:
        for group, form in each.forms.items():
            if group_of.setdefault(form, group) != group:
                raise DataError(f"{path}: {place}: '{form}' is a word of both {group_of[form]} and {group}.")


def _texts(path: Path, place: str, values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise DataError(f"{path}: {place}: expected a list of texts, found {values!r:.60}.")
    return values
