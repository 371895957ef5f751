"""Read a recipe: TOML and --set, the catalog's defaults, and all errors at once with their places."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from palbert.errors import RecipeError, did_you_mean
from palbert.recipe.explain import explain
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import PretrainingSection
from palbert.tasks.catalog import CATALOG, COURSE_FILES, EXTRA_SETS, HUB_SOURCES, SAMPLES
from palbert.tasks.sources import Sources
from palbert.tasks.spec import Task

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

log = logging.getLogger(__name__)

SPLITS = ("train", "dev", "test")
SAMPLES_FOLDER = Path(__file__).parents[1] / "data" / "samples"
BUILTIN_FOLDER = Path(__file__).parent / "builtin"


def load_recipe(source: str | Path, *, overrides: Sequence[str] = (), check_files: bool = True) -> Recipe:
    """Read a recipe file, or a built-in recipe by name, and apply `key=value` overrides.

    Args:
        source: A file, or the name of a built-in recipe.
        overrides: Settings as `key=value`.
        check_files: Refuse a recipe whose data files are not there.
    """
    path = find_recipe(source)
    values = read_toml(path)
    for override in overrides:
        apply_override(values, override)
    recipe = make_recipe(values, folder=path.parent, name=str(path), check_files=check_files)
    for override in overrides:
        phases = enumerate(values.get("phases", ()))
        own = [phase.get("name") or f"phases.{number}" for number, phase in phases if _says(phase, override)]
        if own:
            log.warning("--set %s: a phase that says this itself keeps it: %s", override, ", ".join(own))
    return recipe


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file as nested values."""
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}.") from error
    return values


def find_recipe(source: str | Path) -> Path:
    """Return the path of a recipe given as a file or as the name of a built-in one."""
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
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            values = {"description": f"not valid TOML: {error}"}
        if "tasks" in values or "description" in values:  # what has neither is a table of results, or claims about them
            listed.append((name, str(values.get("description", ""))))
    return listed


def make_recipe(
    values: Mapping[str, Any], *, folder: Path | None = None, name: str = "recipe", check_files: bool = True
) -> Recipe:
    """Check a recipe given as nested values; `folder` is where its relative paths start."""
    folder = folder or Path.cwd()
    values = _with_catalog(_with_absolute_folders(values, folder))
    try:
        recipe = Recipe.model_validate(values)
    except ValidationError as error:
        raise RecipeError(explain(error, name)) from None
    recipe = _with_absolute_paths(recipe, folder)
    problems = _missing_files(recipe) if check_files else []
    if problems:
        raise RecipeError("\n".join(f"{name}: {problem}" for problem in problems))
    return recipe


def with_texts(recipe: Recipe, files: Sequence[str | Path]) -> Recipe:
    """Return a recipe with a pretraining section that has these plain text files too, relative to where the user is."""
    section = recipe.pretraining or PretrainingSection()
    added = tuple(str((Path.cwd() / Path(file).expanduser()).resolve()) for file in files)
    recipe = recipe.model_copy(
        update={"pretraining": section.model_copy(update={"text": tuple(dict.fromkeys(section.text + added))})}
    )
    problems = _text_problems(recipe)
    if problems:
        raise RecipeError("\n".join(problems))
    return recipe


def dump_recipe(recipe: Recipe) -> str:
    """Write a recipe with all its defaults as TOML that gives the same recipe when read."""
    return tomli_w.dumps(_plain(recipe.model_dump(exclude_none=True)))


def _plain(value: Any) -> Any:
    """Drop what TOML need not say: task names that repeat their key."""
    value["tasks"] = {
        name: {key: item for key, item in task.items() if key != "name"} for name, task in value["tasks"].items()
    }
    return value


def apply_override(values: dict[str, Any], override: str) -> None:
    """Apply one `a.b.c=value`, where value is TOML, or text if it is not."""
    key, separator, text = (part.strip() for part in override.partition("="))
    if not separator or not key:
        raise RecipeError(f"--set {override}: expected key=value, such as training.epochs=5.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if key in ("data", "encoder"):  # a folder given by hand starts where the user is, not at the recipe
        value = _with_absolute_folders({key: value}, Path.cwd())[key]
    elif key == "encoder.name":
        value = _with_absolute_folders({"encoder": value}, Path.cwd())["encoder"]
    elif key == "pretraining.text" or key.endswith(".teachers"):
        files = value if isinstance(value, list) else [value]
        value = [str(Path.cwd() / _expand(file)) if isinstance(file, str) else file for file in files]
    *parents, last = key.split(".")
    place = values
    for parent in parents:
        if isinstance(place.get(parent), str):  # encoder = "minilm" stands for {name = "minilm"}
            place[parent] = {"name": place[parent]}
        elif parent in ("tasks", "extra") and isinstance(place.get(parent), list):  # and ["sst"] for {sst = {}}
            place[parent] = {str(name): {} for name in place[parent]}
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):
            raise RecipeError(f"--set {override}: '{parent}' is not a table.")
    place[last] = value


def _says(values: Any, override: str) -> bool:
    """Whether nested values have a setting of their own where an override has one."""
    for name in override.partition("=")[0].strip().split("."):
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def _with_absolute_folders(values: Mapping[str, Any], start: Path) -> dict[str, Any]:
    """Make the data folder and the encoder's folder absolute.

    In a file, they start where the file is; an encoder's that is not there, where the user is.
    """
    values = dict(values)
    if isinstance(values.get("data"), str) and values["data"] not in ("samples", "hub"):
        values["data"] = str((start / _expand(values["data"])).resolve())
    encoder = values.get("encoder")
    name = encoder.get("name") if isinstance(encoder, dict) else encoder
    if isinstance(name, str) and name not in ("", "minilm"):
        for folder in (start / _expand(name), Path.cwd() / _expand(name)):
            if folder.is_dir():
                absolute = str(folder.resolve())
                values["encoder"] = {**encoder, "name": absolute} if isinstance(encoder, dict) else absolute
                break
    return values


def _with_catalog(values: Mapping[str, Any]) -> dict[str, Any]:
    """Put the catalog's settings under those of each task it knows."""
    merged = dict(values)
    data, tasks = merged.get("data"), merged.get("tasks")
    if isinstance(tasks, list):  # tasks = ["sst", "sts"]
        twice = sorted({str(name) for name in tasks if tasks.count(name) > 1})
        if twice:
            raise RecipeError(f"tasks: two tasks of one name: {', '.join(twice)}.")
        tasks = {str(name): {} for name in tasks}
    if not isinstance(tasks, dict):
        return merged
    merged["tasks"] = {
        name: _with_extra_sets({**_defaults(str(name), data), **_given(task)}, data) if isinstance(task, dict) else task
        for name, task in tasks.items()
    }
    return merged


def _with_extra_sets(task: dict[str, Any], data: Any) -> dict[str, Any]:
    """Put the catalog's settings under those of each extra set it knows; extra = ["snli"] stands for a table."""
    extra = task.get("extra")
    if isinstance(extra, list):
        extra = {str(name): {} for name in extra}
    if not isinstance(extra, dict):
        return task
    sets = {
        name: {**_extra_defaults(str(name), data), **_given(given)} if isinstance(given, dict) else given
        for name, given in extra.items()
    }
    return {**task, "extra": sets}


def _extra_defaults(name: str, data: Any) -> dict[str, Any]:
    if name not in EXTRA_SETS:
        return {}
    if data == "hub":
        found = {key: value for key, value in HUB_SOURCES.get(name, {}).items() if key not in ("dev", "test")}
        return {**EXTRA_SETS[name], **found}
    file = f"{name}-train.tsv" if data == "samples" else COURSE_FILES[name]["train"]
    return {**EXTRA_SETS[name], **({"train": file} if isinstance(data, str) else {})}


def _given(task: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out None: TOML cannot say it, so it would not survive being written and read again."""
    return {key: value for key, value in task.items() if value is not None}


def _defaults(name: str, data: Any) -> dict[str, Any]:
    if name not in CATALOG:
        return {}
    if data == "samples":
        files = {split: f"{name}-{split}.tsv" for split in ("train", "dev")} if name in SAMPLES else {}
        return {**CATALOG[name], **files}
    if data == "hub":
        return {**CATALOG[name], **HUB_SOURCES.get(name, {})}
    if isinstance(data, str):
        # The course's own names, as far as the folder holds them; test sets are optional.
        folder = Path(data)
        files = {
            split: file for split, file in COURSE_FILES[name].items() if split != "test" or (folder / file).is_file()
        }
        return {**CATALOG[name], **files}
    return CATALOG[name]


def _expand(path: str) -> Path:
    """Fill in ~ and environment variables."""
    expanded = os.path.expandvars(path)
    if "$" in expanded and not Path(expanded).exists():
        raise RecipeError(
            f"'{path}': this environment variable is not set.",
            hint="Set it, or give the folder: --set data=DIR, --set encoder=DIR (reproduce: --data, --encoder).",
        )
    found = Path(expanded).expanduser()
    return Path.cwd() / found if path.startswith("$") else found  # the shell's variables start where the shell is


def _with_absolute_paths(recipe: Recipe, folder: Path) -> Recipe:
    """Make every file name absolute, so that the recipe can be read again from anywhere."""
    start = folder  # of runs; data has a folder of its own
    data = recipe.data
    if data is not None and data not in ("samples", "hub"):
        folder = Path(data)
    rows = SAMPLES_FOLDER if data == "samples" else folder

    def absolute(path: str) -> str:
        return path if path.startswith("hf:") else str((rows / _expand(path)).resolve())

    section = recipe.pretraining
    if section:  # the samples have no plain text: it lies beside the recipe
        text = tuple(str((folder / _expand(path)).resolve()) for path in section.text)
        section = section.model_copy(update={"text": text})

    def found(sources: Sources) -> Sources:
        return tuple(source.model_copy(update={"path": absolute(source.path)}) for source in sources)

    tasks = {}
    for name, task in recipe.tasks.items():
        extra = {key: each.model_copy(update={"train": found(each.train)}) for key, each in task.extra.items()}
        splits = {split: found(getattr(task, split)) for split in SPLITS}
        teachers = tuple(str((start / _expand(run)).resolve()) for run in task.teachers)
        tasks[name] = task.model_copy(update={**splits, "extra": extra, "teachers": teachers})
    return recipe.model_copy(update={"tasks": tasks, "pretraining": section})


def _missing_files(recipe: Recipe) -> list[str]:
    problems = []
    for name, task in recipe.tasks.items():
        for place, sources in _sources(task).items():
            if not sources and place != "test":
                problems.append(
                    f"tasks.{name}.{place}: no file given. "
                    f'Set tasks.{name}.{place} = "file.csv", or data = "samples", "hub" or a folder.'
                )
            problems += [
                f"tasks.{name}.{place}: no such file: {source.path}"
                for source in sources
                if not source.path.startswith("hf:") and not Path(source.path).is_file()
            ]
        problems += [
            f'tasks.{name}.drop_overlap: names "{kind}", and the task has no test files.'
            for kind in task.drop_overlap
            if kind.startswith("test") and not task.test
        ]
    return problems + _text_problems(recipe)


def _text_problems(recipe: Recipe) -> list[str]:
    problems = []
    for path in recipe.pretraining.text if recipe.pretraining else ():
        if not Path(path).is_file():
            problems.append(f"pretraining.text: no such file: {path}")
        elif Path(path).suffix.lower() != ".txt":
            problems.append(f"pretraining.text: expected .txt files, one text a line, found {path}")
    return problems


def _sources(task: Task) -> dict[str, Sources]:
    """Return all files of a task by their place."""
    extra = {f"extra.{name}.train": each.train for name, each in task.extra.items()}
    return {**{split: getattr(task, split) for split in SPLITS}, **extra}
