"""Rows in memory as files of a recipe: staged in a temporary folder, then kept in the folder of the run."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palbert.errors import DataError, PalbertError
from palbert.readers.memory import FROM_ZERO, write_rows
from palbert.recipe.auto import without_open
from palbert.recipe.load import load_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.values import plain
from palbert.runtime.files import new_file, remove
from palbert.runtime.run_folder import SPLITS

AnyRecipe = Recipe | Mapping[str, Any] | str | Path
"""A checked recipe, one as nested values, a file, or the name of a built-in recipe."""
Data = Mapping[str, Any]
"""Rows by task: a table or an iterable of dicts, or a dict of those by split: "train", "dev", "test" and "extra"."""

ALSO_DEV = ("validation", "valid", "val")
"""What others call dev."""


@dataclass(frozen=True)
class StagedRows:
    """Rows that were given in memory, as files in a temporary folder."""

    files: dict[str, dict[str, Path]] = field(default_factory=dict)
    """Each file by task and by its place there: "train", "dev", "test" or "extra.<set>.train"."""
    names: dict[Path, str] = field(default_factory=dict)
    """What Python code calls the rows of a file: `data["tone"]["dev"]`."""

    def load(self, recipe: AnyRecipe, *, overrides: Sequence[str] = ()) -> Recipe:
        """Return a checked recipe whose tasks read these rows, with `key=value` overrides."""
        if isinstance(recipe, Recipe) and not self.files and not overrides:
            return recipe
        source = plain(without_open(recipe.model_dump(), recipe)) if isinstance(recipe, Recipe) else recipe
        files = {task: {place: str(path) for place, path in places.items()} for task, places in self.files.items()}
        return load_recipe(source, overrides=overrides, files=files)

    def moved(self, recipe: Recipe, folder: Path) -> Recipe:
        """Return a recipe that names these rows as files of another folder."""
        if not self.files:
            return recipe
        places = {str(path): str(folder / path.name) for path in self.names}

        def move(value: Any) -> Any:
            if isinstance(value, dict):
                return {places.get(key, key): move(item) for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [move(item) for item in value]
            return places.get(value, value) if isinstance(value, str) else value

        return Recipe.model_validate(move(recipe.model_dump(exclude_none=True)))

    def move(self, folder: Path) -> None:
        """Move the files to another folder."""
        for path in self.names:
            with new_file(folder / path.name) as temporary:
                shutil.copyfile(path, temporary)
            remove(path)

    def named(self, text: str) -> str:
        """Return a message in which files and lines are named as Python code names the rows."""
        for path, name in self.names.items():
            escaped = re.escape(str(path))
            text = re.sub(rf"{escaped}, line (\d+)", lambda found: _row(name, int(found[1]) - 1), text)  # noqa: B023
            text = text.replace(str(path), name)
        return text


def _row(name: str, number: int) -> str:
    return f"{name}, row {number} ({FROM_ZERO})"


@contextmanager
def staged(data: Data | None) -> Iterator[StagedRows]:
    """Write rows in memory to temporary files; errors within the block name rows as Python code does."""
    if data is None:
        yield StagedRows()
        return
    with tempfile.TemporaryDirectory(prefix="palbert-") as folder:
        rows = _stage(data, Path(folder).resolve())
        try:
            yield rows
        except PalbertError as error:
            error.message = rows.named(error.message)
            error.hint = error.hint and rows.named(error.hint)
            error.args = (error.message,)
            raise


def _stage(data: Data, folder: Path) -> StagedRows:
    if not isinstance(data, Mapping):
        raise DataError(
            f"data: expected a dict from tasks to rows, found {type(data).__name__}.",
            hint='Name the task: data={"tone": rows}.',
        )
    staged = StagedRows()
    for task, given in data.items():
        for place, (name, rows) in _splits(given, f'data["{task}"]').items():
            stem = f"{task}+{place.split('.')[1]}-train" if place.startswith("extra.") else f"{task}-{place}"
            path = folder / f"{re.sub(r'[^A-Za-z0-9_+-]', '_', stem)}.jsonl"
            if not write_rows(rows, path, name=name):
                raise DataError(f"{name}: expected rows, found none.", hint="A generator gives its rows only once.")
            staged.files.setdefault(str(task), {})[place] = path
            staged.names[path] = name
    return staged


def _splits(given: Any, name: str) -> dict[str, tuple[str, Any]]:
    """Return the rows of a task by place, with their names; rows that are not in a dict of splits are for training."""
    if not isinstance(given, Mapping) or not any(split in given for split in (*SPLITS, *ALSO_DEV, "extra")):
        return {"train": (name, given)}
    places: dict[str, tuple[str, Any]] = {}
    for key, rows in given.items():
        place = "dev" if key in ALSO_DEV else str(key)
        if place == "extra" and isinstance(rows, Mapping):
            extra = {f"extra.{own}.train": (f'{name}["extra"]["{own}"]', each) for own, each in rows.items()}
            places.update(extra)
            continue
        if place not in SPLITS:
            known = ", ".join((*SPLITS, "extra"))
            raise DataError(f"{name}: expected the splits {known}, found '{key}'.", hint=_columns_hint(given))
        if place in places:
            twice = ", ".join(map(str, given))
            raise DataError(f"{name}: dev rows are given twice, in {twice}.", hint="Leave one of them out.")
        places[place] = (f'{name}["{key}"]', rows)
    return places


def _columns_hint(given: Mapping[str, Any]) -> str:
    return f"For one table with the columns {', '.join(map(str, given))}, pass a list of dicts or a DataFrame."
