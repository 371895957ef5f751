"""Inferred: what a recipe leaves open about its tasks, found in their training files before the recipe is checked."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError

from palbert.errors import DataError, PalbertError, RecipeError
from palbert.readers import PLAIN, Dialect, headless_hint, is_remote
from palbert.recipe.columns import Columns, guess_label, guess_text
from palbert.recipe.label_values import LabelValues, check_classes, classes_of, target_of
from palbert.recipe.paths import start_of, with_files_of
from palbert.tasks.choices import Component, target_class
from palbert.tasks.sources import SPLIT_NAMES, FileSettings, Labels, Source, Sources, with_lists

log = logging.getLogger(__name__)

Task = dict[str, Any]
SHOWN = 20
"""The most classes that the log lists."""


def with_inferred(
    values: Mapping[str, Any], folder: Path, *, check_files: bool = True
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a recipe's values in which every task is complete, and a problem for each task that could not be.

    The problem is empty where a setting is wrong that checking the recipe explains. Nothing is read for tasks that
    leave nothing open.

    Args:
        values: The recipe, with the catalog's settings.
        folder: Where its relative paths start.
        check_files: Whether files that cannot be read are problems; otherwise their tasks are left as they are.
    """
    tasks = values.get("tasks")
    if not isinstance(tasks, dict):
        return dict(values), {}
    completed, problems = {}, {}
    for name, task in tasks.items():
        completed[name] = task
        if not isinstance(task, dict):
            continue
        try:
            completed[name] = _completed(str(name), task, values.get("data"), folder, check_files=check_files)
        except ValidationError:
            problems[str(name)] = ""  # a wrong setting, which is explained when the recipe is checked
        except DataError as error:
            if check_files:
                problems[str(name)] = f"tasks.{name}.train: {error}"
        except PalbertError as error:
            problems[str(name)] = str(error)
    return {**values, "tasks": completed}, problems


class OpenTask(FileSettings):
    """The settings of a task that others can be inferred from; they need not be complete."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    train: Sources = ()
    kind: Literal["single", "pair"] | None = None
    text: tuple[str, ...] = ()
    label: str | None = None
    labels: Labels | None = None
    target: Component | None = None
    classes: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    id: str = "id"
    split: str = ""
    row_weight: str | None = None

    def files(self, data: Any, folder: Path) -> list[Source]:
        """Return the training files with absolute paths; `data` and `folder` say where they start."""
        found = (with_files_of(source, start_of(source.path, data, folder)) for source in self.train)
        return [file for files in found for file in files]

    @property
    def has_classes(self) -> bool:
        """Whether the target needs class names."""
        return self.target is not None and self.target.name in ("classes", "binary", "multilabel")

    @property
    def between(self) -> str | None:
        """What stands between the classes of a cell; None where a cell is one class."""
        multilabel = self.target is not None and self.target.name == "multilabel"
        return str(self.target.options.get("separator", "|")) if self.target and multilabel else None


def _completed(name: str, task: Task, data: Any, folder: Path, *, check_files: bool) -> Task:
    """Return a task with all that it needs; each setting of its own stays as it is."""
    known = OpenTask.model_validate(with_lists(task, "train"))
    try:
        files = known.files(data, folder)
    except RecipeError as error:
        raise RecipeError(f"tasks.{name}.train: {error.message}", hint=error.hint) from None
    remote = any(is_remote(file.path) for file in files)
    found: Task = {}
    if files and not (remote and (not check_files or (known.text and known.target))):
        found |= _columns(known, files, place=f"tasks.{name}")
        found |= _label_settings(known.model_copy(update=found), files, place=f"tasks.{name}")
    if found:
        shown = ", ".join(f"{key} = {_shown(value)}" for key, value in found.items())
        log.info("tasks.%s, from %s: %s", name, Path(files[0].path).name, shown)
    text = found.get("text", known.text)
    kind = {1: {"kind": "single"}, 2: {"kind": "pair"}}.get(len(text), {})
    return {**kind, **found, **task}


def _columns(task: OpenTask, files: list[Source], *, place: str) -> Task:
    """Return the text and label columns that a task leaves open."""
    text_open = not task.text and any(file.text is None for file in files)
    label_open = task.label is None and any(file.label is None for file in files)
    if not text_open and not label_open:
        return {}
    try:
        return _guess(task, files, text_open=text_open, label_open=label_open, place=place)
    except PalbertError:
        if text_open or task.target is None:
            raise
        return {}  # "label" is the default; what is wrong with the file is said when it is read


def _guess(task: OpenTask, files: list[Source], *, text_open: bool, label_open: bool, place: str) -> Task:
    """Return the columns that the first file with open columns suggests."""
    file = next(file for file in files if file.label is None or file.text is None)
    dialect = file.dialect_over(task.dialect_over(PLAIN))
    columns = Columns.of(file.path, dialect)
    _mention_split(task, columns, place=place)
    try:
        found = _guess_columns(task, file, columns, text_open=text_open, label_open=label_open, place=place)
    except RecipeError as error:
        _refuse_headless(file.path, dialect, list(columns.cells), columns)
        raise error
    _refuse_headless(file.path, dialect, [found.get("label", ""), *found.get("text", ())], columns)
    return found


def _guess_columns(
    task: OpenTask, file: Source, columns: Columns, *, text_open: bool, label_open: bool, place: str
) -> Task:
    found: Task = {}
    others = columns.without(*task.text, *(file.text or ()), task.id, task.split, task.row_weight or "")
    label = task.label or file.label or "label"
    if label_open and label not in columns.cells and columns.cells:
        label = found["label"] = guess_label(columns, others, text_open=text_open, place=place)
    if text_open:
        found["text"] = guess_text(columns, [each for each in others if each != label], kind=task.kind, place=place)
    return found


def _mention_split(task: OpenTask, columns: Columns, *, place: str) -> None:
    """Say that a column looks like one that divides the rows, unless the task uses one."""
    for name, cells in columns.cells.items() if not task.split else ():
        marks = {str(cell).strip().lower() for cell in cells}
        if len(marks) > 1 and marks <= SPLIT_NAMES.keys():
            log.warning(
                "%s: the column '%s' says %s, and is not used. Set split = \"%s\" to divide the rows by it.",
                place,
                name,
                ", ".join(sorted(marks)),
                name,
            )


def _refuse_headless(path: str, dialect: Dialect, names: list[str], columns: Columns) -> None:
    """Raise DataError if columns would be named by a row of data."""
    if dialect.header is None and (hint := headless_hint(path, names, columns.cells)):
        raise DataError(f"{path}: the first line is not a header.", hint=hint)


def _label_settings(task: OpenTask, files: list[Source], *, place: str) -> Task:
    """Return the target and the classes that the labels suggest, where a task does not have them."""
    found: Task = {}
    if task.target is None and (task.classes or task.range):
        return {"target": "classes" if task.classes else "number"}
    if task.target is not None and (task.classes or not task.has_classes):
        return {}
    label = task.label or "label"
    labels = LabelValues.of(
        files,
        general=task.dialect_over(PLAIN),
        label=label,
        mapping=task.labels,
        split=task.split,
        separator=task.between,
    )
    if task.target is None:
        found["target"] = target_of(labels)
        task = task.model_copy(update={"target": Component(name=found["target"])})
    target = target_class(task.target.name if task.target else None)
    if not task.has_classes or (target and target.default_classes and labels.fit(target.default_classes)):
        return found
    check_classes(labels, place=place, column=label, many=task.between is not None or labels.lists)
    return {**found, "classes": classes_of(labels)}


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) > SHOWN:
        return f"{json.dumps(value[:SHOWN], ensure_ascii=False)[:-1]}, … ({len(value)})"
    return json.dumps(value, ensure_ascii=False)
