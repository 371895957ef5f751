"""Paths of a recipe: made absolute, so that it can be read again from anywhere, and checked to exist."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.errors import RecipeError
from palbert.readers import is_remote
from palbert.recipe.schema import Recipe
from palbert.recipe.values import is_unicode
from palbert.tasks.sources import Source, Sources
from palbert.tasks.spec import Task

SPLITS = ("train", "dev", "test")
SAMPLES_FOLDER = Path(__file__).parents[1] / "data" / "samples"

LONGEST_NAME, LONGEST_PATH = 255, 3_500
"""Bytes that file systems allow for a name, and for a path: 4,095 with the folder that it starts at."""
Problems = dict[str, str]
"""What is wrong with a path, by its place in the recipe."""


def expand(path: str) -> Path:
    """Fill in ~ and environment variables; a path that starts with a variable starts at the current folder."""
    if "\0" in path:
        raise RecipeError(f"{path!r:.60}: a path cannot hold the character NUL.")
    if not is_unicode(path):
        raise RecipeError(f"{path!r:.60}: the name is not UTF-8, and recipes are.", hint="Rename the file or folder.")
    expanded = os.path.expandvars(path)
    names = os.fsencode(expanded).split(b"/")
    if max(map(len, names)) > LONGEST_NAME or sum(map(len, names)) + len(names) > LONGEST_PATH:
        raise RecipeError(f"{path!r:.60}: the name is longer than file systems allow.")
    if "$" in expanded and not Path(expanded).exists():
        raise RecipeError(
            f"'{path}': this environment variable is not set.",
            hint="Set it, or give the folder with an override: data=DIR or encoder=DIR (reproduce: --data, --encoder).",
        )
    try:
        found = Path(expanded).expanduser()
    except RuntimeError:
        raise RecipeError(f"'{path}': there is no such user.", hint="Write the whole path.") from None
    return Path.cwd() / found if path.startswith("$") else found


def with_absolute_folders(values: Mapping[str, Any], start: Path, problems: Problems) -> dict[str, Any]:
    """Return a recipe's values with absolute folders for data and encoder.

    In a file, they start at the file; an encoder that is not there is looked for in the current folder.
    """
    values = dict(values)
    if isinstance(values.get("data"), str) and values["data"] not in ("samples", "hub"):
        found = _absolute(values["data"], start, "data", problems)
        values["data"] = str(start) if "data" in problems else found
    encoder = values.get("encoder")
    name = encoder.get("name") if isinstance(encoder, dict) else encoder
    if isinstance(name, str) and name not in ("", "minilm"):
        for folder in (start, Path.cwd()):
            absolute = _absolute(name, folder, "encoder", problems)
            if "encoder" not in problems and Path(absolute).is_dir():
                values["encoder"] = {**encoder, "name": absolute} if isinstance(encoder, dict) else absolute
                break
    return values


def start_of(path: str, data: Any, folder: Path) -> Path:
    """Return where the name of a task's file starts: at the folder that `data` names, or else at the recipe's own.

    Files next to the recipe can be used with the sample rows, too.
    """
    if data == "samples" and os.path.isfile(SAMPLES_FOLDER / path):
        return SAMPLES_FOLDER
    return Path(data) if isinstance(data, str) and data not in ("samples", "hub") else folder


def with_files_of(source: Source, start: Path) -> list[Source]:
    """Return a source with its absolute path; one for each file, in the order of their names, if it has a pattern."""
    if is_remote(source.path):
        return [source]
    path = expand(source.path)
    found = [str(start / path)]
    if glob.has_magic(source.path) and not os.path.exists(start / path):
        names = sorted(glob.glob(str(path), root_dir=start, recursive=True))
        found = [str(start / name) for name in names if os.path.isfile(start / name)] or found
    return [source.model_copy(update={"path": str(Path(each).parent.resolve() / Path(each).name)}) for each in found]


def with_absolute_paths(recipe: Recipe, folder: Path, problems: Problems) -> Recipe:
    """Return a recipe with absolute paths for all files of its tasks, plain texts and teachers."""
    own_folder = recipe.data is not None and recipe.data not in ("samples", "hub")
    data = Path(recipe.data or "") if own_folder else folder

    def absolute(sources: Sources, place: str) -> Sources:
        found: list[Source] = []
        for source in sources:
            try:
                found += with_files_of(source, start_of(source.path, recipe.data, folder))
            except RecipeError as error:
                found.append(source)
                problems[place] = f"{place}: {error}"
        return tuple(found)

    tasks = {}
    for name, task in recipe.tasks.items():
        place = f"tasks.{name}"
        changes: dict[str, Any] = {split: absolute(getattr(task, split), f"{place}.{split}") for split in SPLITS}
        changes["extra"] = {
            key: extra.model_copy(update={"train": absolute(extra.train, f"{place}.extra.{key}.train")})
            for key, extra in task.extra.items()
        }
        changes["teachers"] = tuple(_absolute(run, folder, f"{place}.teachers", problems) for run in task.teachers)
        tasks[name] = task.model_copy(update=changes)
    section = recipe.pretraining
    if section:  # plain texts next to the recipe can be used with the sample rows, too
        text = tuple(_absolute(path, data, "pretraining.text", problems) for path in section.text)
        section = section.model_copy(update={"text": text})
    made_of = recipe.provenance
    if made_of:
        hashes = {
            file if Path(file).is_absolute() else str((folder / file).resolve()): sha256
            for file, sha256 in made_of.data_sha256.items()
        }
        made_of = made_of.model_copy(update={"data_sha256": hashes})
    return recipe.model_copy(update={"tasks": tasks, "pretraining": section, "provenance": made_of})


def with_relative_paths(values: Mapping[str, Any], rows: Path) -> dict[str, Any]:
    """Return a recipe's values in which files in the folder `rows` are named relative to the folder's parent.

    All other paths are absolute by then, so the folder that relative ones start at, `data`, is left out.
    """
    changed = False

    def relative(value: Any) -> Any:
        nonlocal changed
        if isinstance(value, dict):
            return {relative(key): relative(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [relative(item) for item in value]
        if isinstance(value, str) and Path(value).parent == rows:
            changed = True
            return f"{rows.name}/{Path(value).name}"
        return value

    values = {**values, **{key: relative(values[key]) for key in ("tasks", "provenance") if key in values}}
    own_folder = values.get("data") not in (None, "samples", "hub")
    return {key: value for key, value in values.items() if not (changed and own_folder and key == "data")}


def data_files(recipe: Recipe) -> list[str]:
    """Return the paths of all files of a recipe's tasks."""
    return [source.path for task in recipe.tasks.values() for sources in _sources(task).values() for source in sources]


def _absolute(path: str, start: Path, place: str, problems: Problems) -> str:
    """Return an absolute path; one that cannot be expanded is noted and returned as it is."""
    try:
        return str((start / expand(path)).resolve())
    except RecipeError as error:
        problems[place] = f"{place}: {error}"
        return path


def missing_files(recipe: Recipe) -> list[str]:
    """Return a problem for each file that is not given or does not exist."""
    problems = []
    for name, task in recipe.tasks.items():
        for place, sources in _sources(task).items():
            if not sources and place not in ("dev", "test"):  # dev rows are held out from train
                problems.append(
                    f"tasks.{name}.{place}: no file given. "
                    f'Set tasks.{name}.{place} = "file.csv", or data = "samples", "hub" or a folder.'
                )
            problems += [
                f"tasks.{name}.{place}: no such file: {source.path}"
                for source in sources
                if not is_remote(source.path) and Path(source.path).is_absolute() and not os.path.isfile(source.path)
            ]
        problems += [
            f'tasks.{name}.drop_overlap: names "{kind}", but the task has no test files.'
            for kind in task.drop_overlap
            if kind.startswith("test") and not task.test and not task.split
        ]
    return problems + missing_texts(recipe)


def missing_texts(recipe: Recipe) -> list[str]:
    """Return a problem for each plain text file that does not exist or is of another kind."""
    problems = []
    for path in recipe.pretraining.text if recipe.pretraining else ():
        if Path(path).is_absolute() and not Path(path).is_file():
            problems.append(f"pretraining.text: no such file: {path}")
        elif Path(path).suffix.lower() != ".txt":
            problems.append(f"pretraining.text: expected .txt files with one text per line, found {path}")
    return problems


def _sources(task: Task) -> dict[str, Sources]:
    """Return all files of a task by their place."""
    extra = {f"extra.{name}.train": each.train for name, each in task.extra.items()}
    return {**{split: getattr(task, split) for split in SPLITS}, **extra}
