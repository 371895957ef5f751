"""Defaults: the catalog's settings, for the tasks and extra sets that it knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.errors import did_you_mean
from palbert.tasks.catalog import CATALOG, COURSE_FILES, EXTRA_SETS, HUB_SOURCES, SAMPLES


def with_catalog(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's values in which each known task has the catalog's settings, where it has none of its own."""
    merged = dict(values)
    data, tasks = merged.get("data"), merged.get("tasks")
    if isinstance(tasks, list):  # tasks = ["sst", "sts"]
        tasks = {str(name): {} for name in tasks}
    if not isinstance(tasks, dict):
        return merged
    merged["tasks"] = {
        name: _with_extra_sets({**_task_defaults(_known_as(str(name), task), data), **_given(task)}, data)
        if isinstance(task, dict)
        else task
        for name, task in tasks.items()
    }
    return merged


def _known_as(name: str, task: Mapping[str, Any]) -> str:
    """Return the name under which the catalog knows a task; none for one with training files of its own."""
    return str(task.get("catalog") or ("" if task.get("train") else name))


def unknown_catalogs(values: Mapping[str, Any]) -> list[str]:
    """Return a problem for each task that asks for settings that the catalog does not have."""
    tasks = values.get("tasks")
    named = {
        name: task["catalog"]
        for name, task in (tasks.items() if isinstance(tasks, dict) else ())
        if isinstance(task, dict) and task.get("catalog") is not None
    }
    return [
        f"tasks.{name}.catalog: unknown task {known!r}. {did_you_mean(str(known), CATALOG)}"
        for name, known in named.items()
        if known not in CATALOG
    ]


def repeated_tasks(values: Mapping[str, Any]) -> list[str]:
    """Return a problem if a list of tasks names one twice."""
    tasks = values.get("tasks")
    names = [str(name) for name in tasks] if isinstance(tasks, list) else []
    twice = sorted({name for name in names if names.count(name) > 1})
    return [f"tasks: named twice: {', '.join(twice)}."] if twice else []


def _with_extra_sets(task: dict[str, Any], data: Any) -> dict[str, Any]:
    """Return a task whose known extra sets have the catalog's settings; extra = ["snli"] stands for a table."""
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


def _given(task: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out None: TOML has no such value, so it would not survive being written and read again."""
    return {key: value for key, value in task.items() if value is not None and key != "catalog"}


def _extra_defaults(name: str, data: Any) -> dict[str, Any]:
    if name not in EXTRA_SETS:
        return {}
    if data == "hub":
        found = {key: value for key, value in HUB_SOURCES.get(name, {}).items() if key not in ("dev", "test")}
        return {**EXTRA_SETS[name], **found}
    file = f"{name}-train.tsv" if data == "samples" else COURSE_FILES[name]["train"]
    return {**EXTRA_SETS[name], **({"train": file} if isinstance(data, str) else {})}


def _task_defaults(name: str, data: Any) -> dict[str, Any]:
    if name not in CATALOG:
        return {}
    if data == "samples":
        files = {split: f"{name}-{split}.tsv" for split in ("train", "dev")} if name in SAMPLES else {}
        return {**CATALOG[name], **files}
    if data == "hub":
        return {**CATALOG[name], **HUB_SOURCES.get(name, {})}
    if isinstance(data, str):
        # The course's file names; test files are optional, so they are taken only if they exist.
        folder = Path(data)
        files = {
            split: file for split, file in COURSE_FILES[name].items() if split != "test" or (folder / file).is_file()
        }
        return {**CATALOG[name], **files}
    return CATALOG[name]
