"""Submissions: prediction files to hand in, in the form of the course and as plain CSV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palbert.runtime.files import CSVWriter, write_text
from palbert.tasks.catalog import COURSE_ANSWERS
from palbert.tasks.spec import Task


@dataclass(frozen=True)
class TaskAnswers:
    """What a model says of the rows of one task."""

    task: Task
    split: str
    ids: Sequence[str]
    answers: Sequence[str | float]
    """Class names, or numbers."""

    def files(self) -> dict[str, str]:
        """Return the content of every file by its name."""
        suffix = "" if self.split == "test" else f"-{self.split}"
        files = {f"predictions/{self.task.name}{suffix}.csv": self._plain()}
        if self.task.name in COURSE_ANSWERS:
            form = COURSE_ANSWERS[self.task.name]
            files[form["file"].format(split=self.split)] = self._course(form["column"], form["number"])
        return files

    def _plain(self) -> str:
        buffer = io.StringIO()
        writer = CSVWriter(buffer)
        writer.writerow(["id", "prediction"])
        for row, answer in zip(self.ids, self.answers, strict=True):
            writer.writerow([row, answer if isinstance(answer, str) else f"{answer:.6g}"])
        return buffer.getvalue()

    def _course(self, column: str, number: str) -> str:
        """Write what the course's own code writes: a tab in the header, commas below, spaces around both."""
        index = {name: position for position, name in enumerate(self.task.classes)}
        values = [index[answer] if isinstance(answer, str) else answer for answer in self.answers]
        rows = [f"{row} , {value:{number}} \n" for row, value in zip(self.ids, values, strict=True)]
        return "".join([f"id \t {column} \n", *rows])


def write_submission(folder: Path, answers: Sequence[TaskAnswers]) -> dict[str, list[Path]]:
    """Write the files of all tasks; return them by task."""
    written: dict[str, list[Path]] = {}
    for each in answers:
        for name, text in each.files().items():
            write_text(folder / name, text)
            written.setdefault(each.task.name, []).append(folder / name)
    return written
