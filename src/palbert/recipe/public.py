"""Public recipes: what others may see of a run's recipe, which names files without the folders that they are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from palbert.readers import is_remote
from palbert.recipe.paths import SPLITS, data_files
from palbert.recipe.schema import Recipe
from palbert.tasks.sources import Sources


def public_names(recipe: Recipe) -> dict[str, str]:
    """Return what each file, folder and address of a recipe is called in public, by what the recipe calls it.

    Of paths only the name is left, with a number where two are alike; of addresses neither user nor query.
    """
    provenance = recipe.provenance
    used = [
        *data_files(recipe),
        *(provenance.data_sha256 if provenance else ()),
        *(provenance.teachers_sha256 if provenance else ()),
        *(run for task in recipe.tasks.values() for run in task.teachers),
        *(recipe.pretraining.text if recipe.pretraining else ()),
        *([recipe.encoder.name] if PurePath(recipe.encoder.name).is_absolute() else []),
    ]
    return _distinct(dict.fromkeys(used))


def public_recipe(recipe: Recipe) -> Recipe:
    """Return a recipe that others may read: no folders, no passwords in addresses, no tracking services."""
    names = public_names(recipe)

    def renamed(sources: Sources) -> Sources:
        return tuple(source.model_copy(update={"path": names[source.path]}) for source in sources)

    def rehashed(hashes: Mapping[str, str]) -> dict[str, str]:
        return {names[path]: sha256 for path, sha256 in hashes.items()}

    tasks = {}
    for name, task in recipe.tasks.items():
        extra = {key: each.model_copy(update={"train": renamed(each.train)}) for key, each in task.extra.items()}
        changes: dict[str, Any] = {split: renamed(getattr(task, split)) for split in SPLITS}
        changes |= {"extra": extra, "teachers": tuple(names[run] for run in task.teachers)}
        tasks[name] = task.model_copy(update=changes)
    encoder = recipe.encoder.model_copy(update={"name": names.get(recipe.encoder.name, recipe.encoder.name)})
    section, made_of = recipe.pretraining, recipe.provenance
    if section:
        section = section.model_copy(update={"text": tuple(names[path] for path in section.text)})
    if made_of:
        hashes = {"data_sha256": rehashed(made_of.data_sha256), "teachers_sha256": rehashed(made_of.teachers_sha256)}
        made_of = made_of.model_copy(update=hashes)
    return recipe.model_copy(
        update={
            "data": recipe.data if recipe.data in ("samples", "hub") else None,
            "tasks": tasks,
            "encoder": encoder,
            "pretraining": section,
            "provenance": made_of,
            "run": recipe.run.model_copy(update={"wandb": "", "mlflow": ""}),
        }
    )


def _distinct(paths: Iterable[str]) -> dict[str, str]:
    """Return a name for each path; the second file of the same name is called `2-name`."""
    names: dict[str, str] = {}
    for path in paths:
        plain, number = _name(path), 1
        while (name := plain if number == 1 else f"{number}-{plain}") in names.values():
            number += 1
        names[path] = name
    return names


def _name(path: str) -> str:
    if not is_remote(path):
        return PurePath(path).name
    if path.startswith("hf:"):
        return path
    address = urlsplit(path)
    return urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path, "", ""))
