"""Other rows: files or rows in memory that a run is scored on, in place of those that its recipe names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from palbert.errors import DataError, did_you_mean
from palbert.readers import is_remote, resolve_files
from palbert.recipe.schema import Recipe
from palbert.runtime.files import sha256
from palbert.runtime.json_objects import parse_json
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.sources import FileSettings, Source
from palbert.tasks.spec import Task
from palbert.verbs.in_memory import staged

CHECKPOINT_NAME = re.compile(r"best(-.*)?|last")


@dataclass(frozen=True)
class OtherRows:
    """A recipe whose test rows are the given ones, and what they are called."""

    recipe: Recipe
    """The run's recipe; only the tasks with given rows have test files."""
    label: str
    """What the rows are called unless a name is given: the names of the files, or "rows"."""
    files: dict[str, str]
    """The SHA-256 of each file, by its name; rows in memory are named as Python code names them."""

    def place(self, folder: RunFolder, name: str | None, *, suffix: str) -> RunFolder:
        """Return the folder for the report: `evaluations/<name>`; without a name, one that no other rows have.

        Args:
            folder: The run.
            name: The name, if one is given; a report of that name is replaced.
            suffix: Follows a name that is not given.
        """
        if name is not None:
            if not re.fullmatch(r"[\w.+-]*\w[\w.+-]*", name) or CHECKPOINT_NAME.fullmatch(name):
                raise DataError(
                    f"'{name}' cannot be the name of an evaluation.",
                    hint="Take letters, digits, '-', '_' and '.'; the names of checkpoints are taken.",
                )
            return RunFolder(folder.evaluations / name)
        number, first = 1, f"{self.label}{suffix}"
        while True:
            place = RunFolder(folder.evaluations / (first if number == 1 else f"{first}-{number}"))
            if not place.path.exists() or _files_of(place) == self.files:
                return place
            number += 1


def _files_of(place: RunFolder) -> Any:
    """Return the files that an earlier report of other rows is about."""
    try:
        return parse_json(place.report("json", split="test").read_text("utf-8")).get("files")
    except (AttributeError, OSError, ValueError):
        return None


@contextmanager
def other_rows(
    recipe: Recipe,
    data: Mapping[str, Any],
    *,
    text: Sequence[str] = (),
    label: str | None = None,
    settings: FileSettings | None = None,
) -> Iterator[OtherRows]:
    """Read a run's recipe with other test rows; rows in memory are files while the block runs.

    Args:
        recipe: The run's recipe.
        data: By task: a file or a list of files, or rows as `palbert.train` takes them.
        text: Text columns, where they are named otherwise than in training.
        label: The label column, where it is named otherwise than in training.
        settings: How files are written, where that differs from the task's files.
    """
    columns = {"text": [text] if isinstance(text, str) else list(text), "label": label}
    for name in data:
        if name not in recipe.tasks:
            raise DataError(f"Unknown task '{name}'.", hint=did_you_mean(str(name), recipe.tasks))
    if not data:
        raise DataError("Expected rows of at least one task, found none.", hint='Write data={"task": rows}.')
    files = {name: found for name, given in data.items() if (found := _paths(given))}
    rows = {name: {"test": given} for name, given in data.items() if name not in files}
    with staged(rows or None) as in_memory:
        paths = {**files, **{name: [str(places["test"])] for name, places in in_memory.files.items()}}
        tasks = {
            name: task.model_copy(
                update={"test": _sources(task, paths.get(name, []), columns, settings or FileSettings())}
            )
            for name, task in recipe.tasks.items()
        }
        stems = dict.fromkeys(Path(path).name.split(".")[0] for each in files.values() for path in each)
        named = re.sub(r"[^\w+-]", "_", "+".join(stems)) or "rows"
        found = [str(file) for each in paths.values() for path in each for file in resolve_files(path)]
        hashes = {in_memory.named(file): sha256(Path(file)) for file in found}
        yield OtherRows(recipe.model_copy(update={"tasks": tasks}), named, hashes)


def _paths(given: Any) -> list[str]:
    """Return the files that are given; none if rows are."""
    each = given if isinstance(given, list | tuple) else [given]
    return [str(path) for path in each] if all(isinstance(path, str | PathLike) for path in each) else []


def _sources(
    task: Task, paths: Sequence[str], columns: Mapping[str, Any], settings: FileSettings
) -> tuple[Source, ...]:
    if paths and columns["text"] and len(columns["text"]) != len(task.text):
        raise DataError(f"Task '{task.name}' takes {len(task.text)} text columns, found {len(columns['text'])}.")
    given = {key: value for key, value in columns.items() if value} | settings.model_dump(exclude_none=True)
    absolute = [path if is_remote(path) else str(Path(path).resolve()) for path in paths]
    return tuple(Source.model_validate({"path": path, **given}) for path in absolute)
