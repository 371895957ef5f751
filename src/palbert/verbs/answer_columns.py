"""Answer columns: what predicting a file reads from it and adds to it, for one task or for all."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palbert.errors import DataError
from palbert.inference.abstaining import check_confidence
from palbert.readers import no_column
from palbert.reporting.predictions import probability_column
from palbert.targets import Target
from palbert.tasks.spec import Task
from palbert.verbs.predict import Prediction, Predictor

log = logging.getLogger(__name__)

ABSTAINED = "abstained"
"""The column that says where no answer was sure enough."""


class AnswerColumns(ABC):
    """Which columns of a file are read, and which are added to it.

    Args:
        predictor: A loaded model.
        tasks: The tasks that may be asked.
        flat: Whether the output cannot hold lists.
        min_confidence: Abstain where an answer is less likely to be right; a column says where.
    """

    def __init__(
        self, predictor: Predictor, tasks: list[Task], *, flat: bool, min_confidence: float | None = None
    ) -> None:
        self.predictor = predictor
        self.tasks = tasks
        self.flat = flat
        self.min_confidence = min_confidence

    @property
    @abstractmethod
    def title(self) -> str:
        """What the progress bar shows."""

    @abstractmethod
    def text_columns(self, source: Path, there: list[str], given: Sequence[str] | None) -> list[str]:
        """Return the text columns to read; raise DataError if they are not there."""

    @abstractmethod
    def read_columns(self) -> list[list[str]]:
        """Return the text columns of each group of tasks that share them."""

    @abstractmethod
    def added(self) -> list[str]:
        """Return the names of the columns of answers."""

    def abstained(self, predictions: Sequence[Prediction]) -> list[Any]:
        """Return where a task abstained; a flat file cannot hold true and false, so they are written as text."""
        return [str(row.abstained).lower() if self.flat else row.abstained for row in predictions]

    @abstractmethod
    def answers(self, columns: dict[str, list[str]]) -> dict[str, list[Any]]:
        """Return the columns of answers for columns of texts."""


class TaskColumns(AnswerColumns):
    """The answers of one task and the probability of each class."""

    def __init__(self, predictor: Predictor, task: str, *, flat: bool, min_confidence: float | None = None) -> None:
        super().__init__(predictor, [predictor.task(task)], flat=flat, min_confidence=min_confidence)
        check_confidence(min_confidence, self.tasks[0])
        self.names: list[str] = []

    @property
    def title(self) -> str:
        """Return the task's name."""
        return self.tasks[0].name

    def text_columns(self, source: Path, there: list[str], given: Sequence[str] | None) -> list[str]:
        """Return the text columns to read; raise DataError if one is missing."""
        [task] = self.tasks
        self.names = list(given or task.text)
        if len(self.names) != len(task.text):
            raise DataError(f"Task '{task.name}' takes {len(task.text)} text columns, found {len(self.names)}.")
        for name in self.names:
            if name not in there:
                raise no_column(str(source), name, there)
        return self.names

    def read_columns(self) -> list[list[str]]:
        """Return the task's text columns."""
        return [self.names]

    def added(self) -> list[str]:
        """Return the columns of the answers."""
        columns = list(_answer_columns([], self.tasks[0].target, flat=self.flat))
        return columns if self.min_confidence is None else [*columns, ABSTAINED]

    def answers(self, columns: dict[str, list[str]]) -> dict[str, list[Any]]:
        """Return the columns of the answers for columns of texts."""
        [task] = self.tasks
        predictions = self.predictor.predict(task.name, _rows(columns, self.names), min_confidence=self.min_confidence)
        answers = _answer_columns(predictions, task.target, flat=self.flat)
        return answers if self.min_confidence is None else answers | {ABSTAINED: self.abstained(predictions)}


class AllTaskColumns(AnswerColumns):
    """One column per task: the answers of all tasks whose text columns the file has."""

    def __init__(self, predictor: Predictor, *, flat: bool, min_confidence: float | None = None) -> None:
        super().__init__(predictor, list(predictor.tasks.values()), flat=flat, min_confidence=min_confidence)
        check_confidence(min_confidence)
        self.by_columns: dict[tuple[str, ...], list[str]] = {}

    @property
    def title(self) -> str:
        """Return the names of the tasks."""
        return ", ".join(self._asked())

    def text_columns(self, source: Path, there: list[str], given: Sequence[str] | None) -> list[str]:
        """Return the text columns to read; raise DataError if the file fits no task."""
        for task in self.tasks:
            names = tuple(given or task.text)
            if len(names) == len(task.text) and set(names) <= set(there):
                self.by_columns.setdefault(names, []).append(task.name)
        asked = self._asked()
        if not asked:
            wanted = given or self.tasks[0].text
            missing = [name for name in wanted if name not in there]
            if missing:
                raise no_column(str(source), missing[0], there)
            raise DataError(f"No task takes {len(wanted)} text columns.")
        others = [task.name for task in self.tasks if task.name not in asked]
        if others:
            log.info("%s: not asked, as their text columns are not there: %s", source, ", ".join(others))
        return list(dict.fromkeys(name for names in self.by_columns for name in names))

    def read_columns(self) -> list[list[str]]:
        """Return the text columns of each group of tasks that share them."""
        return [list(names) for names in self.by_columns]

    def added(self) -> list[str]:
        """Return the columns of the answers."""
        return [column for name in self._asked() for column in (name, *self._abstained(name))]

    def _asked(self) -> list[str]:
        return [name for names in self.by_columns.values() for name in names]

    def _abstained(self, task: str) -> list[str]:
        """Return the column that says where a task abstained, if it may."""
        target = self.predictor.task(task).target
        may = self.min_confidence is not None and type(target).confidence is not Target.confidence
        return [f"{task} {ABSTAINED}"] if may else []

    def answers(self, columns: dict[str, list[str]]) -> dict[str, list[Any]]:
        """Return the columns of the answers for columns of texts."""
        answers: dict[str, list[Any]] = {}
        for names, tasks in self.by_columns.items():
            predictions = self.predictor.predict_all(
                _rows(columns, names), tasks=tasks, min_confidence=self.min_confidence
            )
            for task in tasks:
                target, asked = self.predictor.task(task).target, [row[task] for row in predictions]
                answers[task] = _answer_columns(asked, target, flat=self.flat)["prediction"]
                answers |= {column: self.abstained(asked) for column in self._abstained(task)}
        return answers


def _rows(columns: dict[str, list[str]], names: Sequence[str]) -> list[Any]:
    return list(zip(*(columns[name] for name in names), strict=True))


def _answer_columns(predictions: Sequence[Prediction], target: Target, *, flat: bool) -> dict[str, list[Any]]:
    """Return the answers and the probability of each class; a flat file cannot hold a list, so its text is written."""
    answers = [item.answer for item in predictions]
    if flat:
        answers = [target.show(answer) if isinstance(answer, list) else answer for answer in answers]
    return {
        "prediction": answers,
        **{
            probability_column(name): [(item.probabilities or {}).get(name) for item in predictions]
            for name in target.classes
        },
    }
