"""Submission files: predictions to hand in, in the course's form and as plain CSV."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.reproduction.course import PREDICTION_FILES, PredictionFile
from palbert.runtime.csv_lines import CSVWriter
from palbert.runtime.files import write_text
from palbert.runtime.spreadsheet import safe_cell
from palbert.tasks.spec import Task


@dataclass(frozen=True)
class TaskAnswers:
    """The predictions for all rows of one task."""

    task: Task
    split: str
    ids: Sequence[str]
    answers: Sequence[Any]
    """As the task's target gives them: class names, numbers, …"""

    def files(self, *, spreadsheet_safe: bool = False) -> dict[str, str]:
        """Return the content of each file by its name; the course's form is never escaped."""
        suffix = "" if self.split == "test" else f"-{self.split}"
        files = {f"predictions/{self.task.name}{suffix}.csv": self._plain(safe_cell if spreadsheet_safe else str)}
        course = PREDICTION_FILES.get(self.task.name)
        if course and not self.task.target.many:  # the course knows one answer per row
            files[course.name.format(split=self.split)] = self._in_course_form(course)
        return files

    def _plain(self, written: Callable[[str], str]) -> str:
        buffer = io.StringIO()
        writer = CSVWriter(buffer)
        writer.writerow(["id", "prediction"])
        for row, answer in zip(self.ids, self.answers, strict=True):
            writer.writerow([written(row), written(self.task.target.show(answer))])
        return buffer.getvalue()

    def _in_course_form(self, file: PredictionFile) -> str:
        """Write exactly what the course's own code writes: a tab in the header, commas below, spaces around both."""
        values = [self.task.target.parse(answer) if isinstance(answer, str) else answer for answer in self.answers]
        rows = [f"{row} , {value:{file.number}} \n" for row, value in zip(self.ids, values, strict=True)]
        return "".join([f"id \t {file.column} \n", *rows])


def write_submission(
    folder: Path, answers: Sequence[TaskAnswers], *, spreadsheet_safe: bool = False, replace: bool = True
) -> dict[str, list[Path]]:
    """Write the files of all tasks; return them by task. Unless `replace`, one that exists by then is an error."""
    written: dict[str, list[Path]] = {}
    for each in answers:
        for name, text in each.files(spreadsheet_safe=spreadsheet_safe).items():
            write_text(folder / name, text, replace=replace)
            written.setdefault(each.task.name, []).append(folder / name)
    return written
