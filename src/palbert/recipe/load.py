"""Load recipes: find and read TOML files, check them, report all problems at once, and write recipes again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from palbert.errors import RecipeError, did_you_mean
from palbert.recipe.defaults import repeated_tasks, with_catalog
from palbert.recipe.explain import refusal
from palbert.recipe.overrides import apply_override, has_setting
from palbert.recipe.paths import Problems, missing_files, missing_texts, with_absolute_folders, with_absolute_paths
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import PretrainingSection
from palbert.recipe.validate import validate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

log = logging.getLogger(__name__)

BUILTIN_FOLDER = Path(__file__).parent / "builtin"


def load_recipe(source: str | Path, *, overrides: Sequence[str] = (), check_files: bool = True) -> Recipe:
    """Read a recipe file, or a built-in recipe by name, and apply `key=value` overrides.

    Args:
        source: A file, or the name of a built-in recipe.
        overrides: Settings as `key=value`.
        check_files: Refuse a recipe whose data files do not exist.
    """
    path = find_recipe(source)
    values = read_toml(path)
    for override in overrides:
        apply_override(values, override)
    recipe = make_recipe(values, folder=path.parent, name=str(path), check_files=check_files)
    for override in overrides:
        phases = enumerate(values.get("phases", ()))
        own = [phase.get("name") or f"phases.{number}" for number, phase in phases if has_setting(phase, override)]
        if own:
            log.warning("--set %s: has no effect on phases with a setting of their own: %s", override, ", ".join(own))
    return recipe


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file as nested values."""
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}.") from error
    return values


def find_recipe(source: str | Path) -> Path:
    """Return the path of a recipe, given as a file or as the name of a built-in one."""
    path = Path(source)
    if path.is_file():
        return path
    builtin = BUILTIN_FOLDER / f"{source}.toml"
    if builtin.is_file():
        return builtin
    known = did_you_mean(str(source), [recipe.stem for recipe in BUILTIN_FOLDER.glob("*.toml")])
    raise RecipeError(f"No recipe file '{source}', and no built-in recipe of that name.", hint=known)


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
    folder = folder or Path.cwd()
    unresolved: Problems = {}
    completed = with_catalog(with_absolute_folders(values, folder, unresolved))
    problems = [*unresolved.values(), *repeated_tasks(values)]
    data_is_known = "data" not in unresolved
    recipe, found = validate(completed)
    problems += found
    unresolved.clear()
    recipe = with_absolute_paths(recipe, folder, unresolved)
    problems += unresolved.values()
    problems += missing_files(recipe) if check_files and data_is_known else []
    if problems:
        raise refusal(name, problems)
    return recipe


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


def dump_recipe(recipe: Recipe) -> str:
    """Write a recipe with all its defaults as TOML, which gives the same recipe when it is read."""
    values = recipe.model_dump(exclude_none=True)
    for task in values["tasks"].values():
        del task["name"]  # the key of the task's table
    return tomli_w.dumps(values)
