"""Overrides: settings given as `key=value`, on top of a recipe's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.errors import RecipeError
from palbert.recipe.paths import Problems, expand, with_absolute_folders
from palbert.recipe.values import DEEPEST, is_unicode

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def apply_override(values: dict[str, Any], override: str) -> None:
    """Apply one `a.b.c=value`, where value is TOML, or text if it is not valid TOML."""
    key, separator, text = (part.strip() for part in override.partition("="))
    if not separator or not key:
        raise RecipeError(f"override {override}: expected key=value, such as training.epochs=5.")
    if not is_unicode(override):
        raise RecipeError(f"override {override!r:.60}: expected UTF-8, which recipes are written in.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    except (RecursionError, ValueError):  # of nested lists, or a number of thousands of digits
        raise RecipeError(f"override {key}: the value is nested too deeply, or a number has too many digits.") from None
    *parents, last = key.split(".")
    if len(parents) >= DEEPEST:
        raise RecipeError(f"override {key:.40}…: no setting is in so many tables.")
    place: Any = values
    for parent in parents:
        if isinstance(place, list):  # objectives.0.weight
            place = _item(place, parent, override)
            continue
        if parent == "training" and place.get(parent) == "auto":  # stands for {auto = true}
            place[parent] = {"auto": True}
        elif isinstance(place.get(parent), str):  # encoder = "minilm" stands for {name = "minilm"}
            place[parent] = {"name": place[parent]}
        elif parent in ("tasks", "extra") and isinstance(place.get(parent), list):  # and ["sst"] for {sst = {}}
            place[parent] = {str(name): {} for name in place[parent]}
        place = place.setdefault(parent, {})
        if not isinstance(place, dict) and (not isinstance(place, list) or not place):
            raise RecipeError(f"override {override}: '{parent}' is not a table.")
    if isinstance(place, list):
        _item(place, last, override)
        place[int(last)] = value
    else:
        place[last] = _from_current_folder(key, value)


def _item(items: list[Any], number: str, override: str) -> dict[str, Any]:
    """Return the table at a number in a list such as the objectives; a bare name becomes a table with that name."""
    if not number.isascii() or not number.isdigit() or int(number) >= len(items):
        raise RecipeError(
            f"override {override}: '{number:.40}' is in the place of a number from 0 to {len(items) - 1} in a list."
        )
    found = items[int(number)]
    table = {"name": found} if isinstance(found, str) else found
    if not isinstance(table, dict):
        raise RecipeError(f"override {override}: '{number}' is not a table.")
    items[int(number)] = table
    return table


def _from_current_folder(key: str, value: Any) -> Any:
    """Make a path absolute: given by hand, it starts at the current folder and not at the recipe."""
    if key in ("data", "encoder", "encoder.name"):
        section = key.removesuffix(".name")
        problems: Problems = {}
        value = with_absolute_folders({section: value}, Path.cwd(), problems)[section]
        if problems:
            raise RecipeError("\n".join(problems.values()))
    elif key == "pretraining.text" or key.endswith(".teachers"):
        files = value if isinstance(value, list) else [value]
        value = [str(Path.cwd() / expand(file)) if isinstance(file, str) else file for file in files]
    return value


def has_setting(values: Any, override: str) -> bool:
    """Whether nested values have a setting of their own for the key of an override."""
    for name in override.partition("=")[0].strip().split("."):
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return True
