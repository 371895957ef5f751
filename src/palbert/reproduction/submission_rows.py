"""Submission rows: the files whose rows are to be predicted, and their ids and texts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palbert.errors import DataError
from palbert.readers import Chunk, is_remote, no_column, read_chunks
from palbert.reproduction.course import course_file, course_text_columns
from palbert.tasks.sources import Source, Sources
from palbert.tasks.spec import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SubmissionRows:
    """The rows of one task to be predicted."""

    ids: list[str]
    """Unique."""
    texts: list[tuple[str, ...]]
    """One text per row, or two for pairs."""


def find_files(
    tasks: Sequence[str],
    *,
    recipe_tasks: Mapping[str, Task],
    split: Literal["dev", "test"],
    folder: str | Path | None,
    files: Mapping[str, str | Path],
) -> dict[str, Sources]:
    """Return the files of every task; report all missing ones together.

    Args:
        tasks: The tasks to predict.
        recipe_tasks: The tasks of the run's recipe.
        split: Whose files are looked for.
        folder: A folder with the course's files, or with files named as in the run's recipe.
        files: Files of single tasks, which take precedence.
    """
    if folder is not None and not Path(folder).is_dir():
        raise DataError(f"{folder}: no such folder.", hint="Give the folder of the test files, or task=FILE.")
    found: dict[str, Sources] = {}
    problems = []
    for name in tasks:
        course = None if folder is None else course_file(folder, name, split)
        own: Sources = getattr(recipe_tasks[name], split) if name in recipe_tasks else ()
        if name in files:
            found[name] = (Source(path=str(files[name])),)
        elif course is not None:
            found[name] = (Source(path=str(course)),)
        else:
            found[name] = tuple(_in_folder(source, folder) for source in own)
        if not found[name]:
            problems.append(f"{name}: no {split} file is known: the run's recipe names none.")
        problems += [
            f"{name}: no such file: {source.path}"
            for source in found[name]
            if not is_remote(source.path) and not Path(source.path).is_file()
        ]
    if problems:
        hint = "Name a task's file with --test task=FILE, or the tasks to predict with --task."
        raise DataError("\n".join(problems), hint=hint)
    return found


def _in_folder(source: Source, folder: str | Path | None) -> Source:
    """Look for a file of the run's recipe in another folder, if one is given."""
    if folder is None or is_remote(source.path):
        return source
    return source.model_copy(update={"path": str(Path(folder) / Path(source.path).name)})


def read_rows(task: Task, sources: Sources) -> SubmissionRows:
    """Read the ids and texts of all rows; number rows without an id from 0, and raise DataError for a repeated id."""
    first: dict[str, str] = {}
    texts: list[tuple[str, ...]] = []
    numbered = 0
    for source in sources:
        for chunk in read_chunks(source.path, dialect=source.dialect_over(task.dialect)):
            if not chunk.columns:
                continue  # a JSONL file without rows has no columns
            columns = [chunk.column(name) for name in _text_columns(task, source, chunk)]
            for row, line, *cells in zip(_ids(task, chunk), chunk.lines, *columns, strict=True):
                place, given = f"{chunk.path}, line {line}", (row or "").strip()
                identity = given or str(len(texts))  # as the prediction files of an evaluation have it
                numbered += not given
                if identity in first:
                    raise DataError(f"{place}: the id {identity} occurred before, in {first[identity]}.")
                first[identity] = place
                texts.append(tuple((cell or "").strip() for cell in cells))
    if not texts:
        raise DataError(f"{', '.join(source.path for source in sources)}: no rows for {task.name}.")
    if numbered:
        log.warning("%s: %d of %d rows have no id; they are numbered from 0.", task.name, numbered, len(texts))
    empty = sum(not all(row) for row in texts)
    if empty:
        log.warning("%s: %d of %d rows have an empty text; they are predicted too.", task.name, empty, len(texts))
    return SubmissionRows(list(first), texts)


def _ids(task: Task, chunk: Chunk) -> list[str | None]:
    """Return the ids: the task's column, or the course's if the run was trained on other files; None without both."""
    for name in (task.id, "id"):
        if name in chunk.columns:
            return chunk.column(name)
    return [None] * len(chunk)


def _text_columns(task: Task, source: Source, chunk: Chunk) -> Sequence[str]:
    """Return the text columns: the task's, or the course's if the run was trained on other files."""
    own = source.text or task.text
    for names in (own, course_text_columns(task.name)):
        if names and set(names) <= set(chunk.columns):
            return names
    missing = next(name for name in own if name not in chunk.columns)
    raise no_column(chunk.path, missing, list(chunk.columns))
