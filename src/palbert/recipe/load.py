"""Load recipes: find and read TOML files, check them, report all problems at once, and write recipes again."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from palbert.errors import RecipeError, did_you_mean
from palbert.readers import SUFFIXES
from palbert.recipe.auto import is_open, without_open
from palbert.recipe.defaults import repeated_tasks, unknown_catalogs, with_catalog
from palbert.recipe.explain import refusal
from palbert.recipe.from_file import is_data_file, task_name, values_of_file
from palbert.recipe.inferred import with_inferred
from palbert.recipe.overrides import apply_override, has_setting
from palbert.recipe.paths import (
    Problems,
    missing_files,
    missing_texts,
    with_absolute_folders,
    with_absolute_paths,
    with_relative_paths,
)
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import PretrainingSection
from palbert.recipe.validate import validate
from palbert.recipe.values import Files, plain, refuse_depth, with_files
from palbert.registry.trust import admit, allow_recipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

log = logging.getLogger(__name__)

BUILTIN_FOLDER = Path(__file__).parent / "builtin"


def load_recipe(
    source: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    check_files: bool = True,
    files: Files | None = None,
) -> Recipe:
    """Read a user's recipe file, or a built-in recipe by name, and apply `key=value` overrides.

    Args:
        source: A file, the name of a built-in recipe, or a recipe as nested values. A data file stands for a recipe
            with one task that is trained on it.
        overrides: Settings as `key=value`.
        check_files: Refuse a recipe whose data files do not exist.
        files: Files of tasks that replace the recipe's own.
    """
    if isinstance(source, Mapping):
        refuse_depth(source, "recipe")
        values, folder, name = plain(source), Path.cwd(), "recipe"
    else:
        path = find_recipe(source)
        values = values_of_file(path) if is_data_file(path) else read_toml(path)
        folder, name = path.parent, str(path)
    automatic = is_open(values)
    for override in overrides:
        apply_override(values, override)
    if automatic and not is_open(values) and not values.get("phases"):
        values["training"] = {"auto": True, **values.get("training", {})}  # an override changes one setting only
    values = with_files(values, files or {})
    try:
        recipe = make_recipe(values, folder=folder, name=name, check_files=check_files)
    except RecipeError as error:
        if is_data_file(name) and " = " in error.message:  # it names a setting, and there is no recipe to write it into
            error.hint = error.hint or f"Give such a setting as --set tasks.{task_name(name)}.KEY=VALUE"
        raise
    for override in overrides:
        phases = enumerate(values.get("phases", ()))
        own = [phase.get("name") or f"phases.{number}" for number, phase in phases if has_setting(phase, override)]
        if own:
            log.warning(
                "override %s: has no effect on phases with a setting of their own: %s", override, ", ".join(own)
            )
    return recipe


def load_run_recipe(path: Path, *, check_files: bool = False) -> Recipe:
    """Read the recipe in a run folder; raise TrustError if it names code that the user has not allowed."""
    admit(read_toml(path), str(path))
    return load_recipe(path, check_files=check_files)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file as nested values."""
    if not path.is_file():
        raise RecipeError(f"{path}: not a regular file." if path.exists() else f"{path}: no such file.")
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except RecursionError as error:
        raise RecipeError(f"{path}: not valid TOML: the values are nested too deeply.") from error
    except ValueError as error:  # of the syntax, of the encoding, or a number of thousands of digits
        raise RecipeError(f"{path}: not valid TOML: {error}.") from error
    refuse_depth(values, str(path))
    return values


def find_recipe(source: str | Path) -> Path:
    """Return the path of a recipe, given as a file or as the name of a built-in one."""
    path = Path(source)
    if os.path.isfile(path):
        if path.suffix != ".toml" and not is_data_file(path):
            raise _unknown_kind(path)
        return path
    builtin = BUILTIN_FOLDER / f"{source}.toml"
    if os.path.isfile(builtin):
        return builtin
    known = did_you_mean(str(source), [recipe.stem for recipe in BUILTIN_FOLDER.glob("*.toml")])
    if is_data_file(path):
        there = os.path.lexists(path)
        raise RecipeError(f"{source}: not a regular file." if there else f"No such file: {source}")
    if path.suffix not in ("", ".toml"):
        raise _unknown_kind(path)
    raise RecipeError(f"No recipe file '{source}', and no built-in recipe of that name.", hint=known)


def _unknown_kind(path: Path) -> RecipeError:
    return RecipeError(
        f"{path}: expected a recipe, .toml, or a data file.",
        hint=f"Data files are: {', '.join(SUFFIXES)}, or text with .gz.",
    )


def list_recipes() -> list[tuple[str, str]]:
    """Return name and description of the built-in recipes and of those in ./recipes."""
    found = [(path.stem, path) for path in sorted(BUILTIN_FOLDER.glob("*.toml"))]
    found += [(str(path), path) for path in sorted(Path("recipes").rglob("*.toml"))]
    listed = []
    for name, path in found:
        try:
            values = read_toml(path)
        except RecipeError as error:
            values = {"description": error.message.removeprefix(f"{path}: ")}
        if "tasks" in values or "description" in values:  # other files are tables of results, or claims about them
            listed.append((name, str(values.get("description", ""))))
    return listed


def make_recipe(
    values: Mapping[str, Any], *, folder: Path | None = None, name: str = "recipe", check_files: bool = True
) -> Recipe:
    """Check a recipe given as nested values; raise RecipeError with all problems.

    Args:
        values: The recipe, as TOML would give it.
        folder: Where its relative paths start; the current folder unless given.
        name: The name of the recipe in error messages.
        check_files: Refuse a recipe whose data files do not exist.
    """
    refuse_depth(values, name)
    folder, values = folder or Path.cwd(), plain(values)
    allow_recipe(values, name)
    unresolved: Problems = {}
    completed = with_catalog(with_absolute_folders(values, folder, unresolved))
    problems = [*unresolved.values(), *repeated_tasks(values), *unknown_catalogs(values)]
    data_is_known = "data" not in unresolved
    completed, open_tasks = with_inferred(completed, folder, check_files=check_files and data_is_known)
    recipe, found = validate(completed)
    problems += filter(None, open_tasks.values())
    problems += [each for each in found if not any(_follows(each, *task) for task in open_tasks.items())]
    unresolved.clear()
    recipe = with_absolute_paths(recipe, folder, unresolved)
    problems += unresolved.values()
    problems += missing_files(recipe) if check_files and data_is_known else []
    if problems:
        raise refusal(name, problems)
    return recipe


def _follows(found: str, task: str, problem: str) -> bool:
    """Whether a problem of a recipe is only that a task could not be completed, for a reason that is reported."""
    if problem:
        return found.startswith(f"tasks.{task}.")
    return found.startswith(tuple(f"tasks.{task}.{key}: missing" for key in ("kind", "target", "text")))


def with_texts(recipe: Recipe, files: Sequence[str | Path]) -> Recipe:
    """Return a recipe whose pretraining section has these plain text files too, relative to the current folder."""
    section = recipe.pretraining or PretrainingSection()
    added = tuple(str((Path.cwd() / Path(file).expanduser()).resolve()) for file in files)
    section = section.model_copy(update={"text": tuple(dict.fromkeys(section.text + added))})
    recipe = recipe.model_copy(update={"pretraining": section})
    problems = missing_texts(recipe)
    if problems:
        raise RecipeError("\n".join(problems))
    return recipe


def dump_recipe(recipe: Recipe, *, rows: Path | None = None) -> str:
    """Write a recipe with all its defaults as TOML, which gives the same recipe when it is read.

    Args:
        recipe: What to write.
        rows: A folder next to the file that is written; files in it are named relative to that file.
    """
    values = without_open(recipe.model_dump(exclude_none=True), recipe)
    if rows:
        values = with_relative_paths(values, rows)
    for name, task in values["tasks"].items():
        del task["name"]  # the key of the task's table
        held_out = recipe.tasks[name].held_out
        if held_out:
            del task["held_out"]
            task["dev"] = held_out.short
    return tomli_w.dumps(values)
