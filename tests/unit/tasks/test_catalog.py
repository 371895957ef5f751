"""The catalog: every entry is a task, and its other tables speak of the same tasks."""

from __future__ import annotations

import pytest

from palbert.tasks.catalog import CATALOG, COURSE_FILES, HUB_SOURCES, SAMPLES, SEEN_BY_ENCODERS
from palbert.tasks.spec import Task


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_every_entry_makes_a_task(name: str) -> None:
    task = Task.model_validate({"name": name, **CATALOG[name]})
    assert task.name == name
    assert not (task.train or task.dev or task.test)


@pytest.mark.parametrize("name", sorted(COURSE_FILES))
def test_every_entry_makes_a_task_with_the_course_files(name: str) -> None:
    task = Task.model_validate({"name": name, **CATALOG[name], **COURSE_FILES[name]})
    assert [source.path for source in (*task.train, *task.dev, *task.test)] == list(COURSE_FILES[name].values())


@pytest.mark.parametrize("name", sorted(HUB_SOURCES))
def test_every_entry_makes_a_task_with_its_hub_source(name: str) -> None:
    task = Task.model_validate({"name": name, **CATALOG[name], **HUB_SOURCES[name]})
    assert task.train and task.dev
    assert all(source.path.startswith("hf:") for source in (*task.train, *task.dev, *task.test))


def test_all_tables_know_the_same_tasks() -> None:
    assert COURSE_FILES.keys() == CATALOG.keys()
    assert CATALOG.keys() >= HUB_SOURCES.keys() | set(SAMPLES) | SEEN_BY_ENCODERS.keys()


@pytest.mark.parametrize(
    ("name", "kind", "target", "width"),
    [
        ("sst", "single", "classes", 5),
        ("quora", "pair", "binary", 1),
        ("sts", "pair", "number", 1),
        ("cfimdb", "single", "binary", 1),
        ("snli", "pair", "binary", 1),
    ],
)
def test_the_tasks_match_the_reports(name: str, kind: str, target: str, width: int) -> None:
    task = Task.model_validate({"name": name, **CATALOG[name]})
    assert (task.kind, task.target.name, task.outputs) == (kind, target, width)
