"""A recipe's values: as Python code writes them, made plain as TOML would give them, and with files put in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from palbert.errors import RecipeError, did_you_mean
from palbert.runtime.json_objects import is_deeper
from palbert.tasks.catalog import CATALOG

Files = Mapping[str, Mapping[str, str]]
"""The path of a file by task and by its place in the task: "train", "dev", "test" or "extra.<set>.train"."""


DEEPEST = 20
"""Tables and lists inside each other; the settings of palbert have up to seven."""
DESCRIBING = ("train", "kind", "text", "label", "labels", "target", "classes", "range")
"""Settings that say what the rows of a task are."""


def refuse_depth(values: Any, name: str) -> None:
    """Raise RecipeError for tables and lists inside each other that are no settings, or that hold themselves."""
    if is_deeper(values, DEEPEST):
        raise RecipeError(f"{name}: the values are nested too deeply.", hint="No setting is in so many tables.")


def is_unicode(text: str) -> bool:
    """Whether a text is made of whole characters; bytes of names and commands that are not UTF-8 become halves."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def plain(values: Any) -> Any:
    """Return nested values as TOML would give them: paths as text, NumPy scalars as plain numbers, nothing for None."""
    if isinstance(values, BaseModel):
        return plain(values.model_dump())
    if isinstance(values, Mapping):
        return {key: plain(value) for key, value in values.items() if value is not None}
    if isinstance(values, list | tuple):
        return [plain(value) for value in values]
    if hasattr(values, "tolist"):  # of NumPy
        return values.tolist()
    return os.fspath(values) if isinstance(values, os.PathLike) else values


def with_files(values: Mapping[str, Any], files: Files) -> dict[str, Any]:
    """Return a recipe's values with these files in place of those that its tasks name."""
    given = values.get("tasks", {})
    tasks = _by_name(given)
    if not isinstance(tasks, dict) or len(tasks) < len(given):
        return dict(values)  # no tasks, or one named twice: errors that validation reports
    for name, places in files.items():
        if name not in tasks:
            raise RecipeError(f"data: the recipe has no task '{name}'.", hint=did_you_mean(name, map(str, tasks)))
        if isinstance(tasks[name], dict):
            tasks[name] = _with_own_files({**_known(name, tasks[name]), **tasks[name]}, places)
    return {**values, "tasks": tasks}


def _known(name: str, task: Mapping[str, Any]) -> dict[str, str]:
    """Say that a task is one of the catalog, if it is called so and says nothing about its rows itself."""
    is_known = name in CATALOG and not any(key in task for key in DESCRIBING)
    return {"catalog": name} if is_known else {}


def _with_own_files(task: dict[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    task = dict(task)
    for place, path in places.items():
        if not place.startswith("extra."):
            task[place] = path
            continue
        extra = _by_name(task.get("extra", {}))
        key = place.removeprefix("extra.").removesuffix(".train")
        if not isinstance(extra, dict) or not isinstance(extra.get(key, {}), dict):
            continue
        task["extra"] = {**extra, key: {**extra.get(key, {}), "train": path}}
    return task


def _by_name(tables: Any) -> Any:
    """Return a table of tables; ["sst", "sts"] stands for one of empty tables."""
    if isinstance(tables, list):
        return {str(name): {} for name in tables}
    return dict(tables) if isinstance(tables, Mapping) else tables
