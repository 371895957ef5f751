"""From a file: the recipe of a data file that is given in place of one, with one task and defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from palbert.errors import RecipeError
from palbert.readers import SUFFIXES

NAMELESS = "task"
"""The name of the task of a file whose name has no letter or digit."""


def is_data_file(path: str | Path) -> bool:
    """Whether a path names a file of rows, and not a recipe."""
    return Path(path).name.lower().removesuffix(".gz").endswith(SUFFIXES)


def task_name(path: str | Path) -> str:
    """Return the name of a file without its endings, as a task may be called: letters, digits, "-" and "_"."""
    name = Path(path).name
    stem = Path(name[:-3] if name.lower().endswith(".gz") else name).stem
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_") or NAMELESS


def run_name(source: str | PathLike[str]) -> str:
    """Return the name of the run of a recipe or a data file, unless another is given."""
    return task_name(Path(source)) if is_data_file(Path(source)) else Path(source).stem


def values_of_file(path: str | Path) -> dict[str, Any]:
    """Return the values of a recipe with one task, named after its file and trained as suits its rows."""
    file = Path(path)
    return {
        "description": f"{file.name}, with settings chosen for it.",
        "tasks": {task_name(file): {"train": str(file.resolve())}},
        "training": {"auto": True},
    }


def columns_as_overrides(
    source: str, *, text: Sequence[str] = (), label: str | None = None, test: Path | None = None
) -> list[str]:
    """Return the settings of a data file's task as `key=value`.

    Args:
        source: The data file; settings of a recipe are given by their place in it.
        text: The text columns.
        label: The label column.
        test: A test file, relative to the current folder.

    Raises:
        RecipeError: There are settings, but the source is not a data file.
    """
    settings: dict[str, Any] = {"text": list(text) or None, "label": label, "test": test and str(test.resolve())}
    given = {key: value for key, value in settings.items() if value is not None}
    if given and not is_data_file(source):
        options = " and ".join(f"--{key}" for key in given)
        raise RecipeError(
            f"{source}: {options} is for a data file in place of a recipe.",
            hint=f"Set it in the recipe, or with --set tasks.NAME.{next(iter(given))}=…",
        )
    return [f"tasks.{task_name(source)}.{key}={json.dumps(value)}" for key, value in given.items()]
