"""BlockFolder: the texts and answers of a file's blocks, as numbered files that workers on all machines see."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from palbert.errors import DataError
from palbert.runtime.files import disk_errors
from palbert.runtime.json_objects import parse_json
from palbert.verbs.engines.engine import Block, Columns


class BlockFolder:
    """Numbered files of texts and answers.

    An answer file is written under another name and renamed: it is complete or not there, and a block that is scored
    twice replaces its own answers.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def cut(self, job: dict[str, Any], blocks: Iterator[Block]) -> list[int]:
        """Write the texts of all blocks; return how many rows each has. What the same job left is used again.

        Args:
            job: What determines the answers. What another job left is removed.
            blocks: The blocks, which are not read if the same job has cut them before.
        """
        plan = self.path / "job.json"
        if plan.is_file():
            with suppress(ValueError, LookupError, TypeError):  # damaged: the blocks are cut again
                former = parse_json(plan.read_text("utf-8"))
                if former["job"] == job:
                    return [int(rows) for rows in former["rows"]]
        self.remove()
        rows = []
        with disk_errors(self.path):
            self.path.mkdir(parents=True)
        for number, block in enumerate(blocks):
            self._write(self._name("texts", number), block.texts)
            rows.append(block.rows)
        self._write("job.json", {"job": job, "rows": rows})  # last: with it, the texts are complete
        return rows

    def has_answers(self, number: int) -> bool:
        """Return whether a block has been scored."""
        return (self.path / self._name("answers", number)).is_file()

    def texts(self, number: int) -> Columns:
        """Read the texts of a block."""
        return self._read("texts", number)

    def answers(self, number: int) -> Columns:
        """Read the answers of a block."""
        return self._read("answers", number)

    def write_answers(self, number: int, answers: Columns) -> None:
        """Write the answers of a block, or replace them."""
        self._write(self._name("answers", number), answers)

    def is_scored(self) -> bool:
        """Return whether at least one block has been scored."""
        return any(self.path.glob("answers-*.json"))

    def remove(self) -> None:
        """Remove all blocks."""
        shutil.rmtree(self.path, ignore_errors=True)

    @staticmethod
    def _name(kind: str, number: int) -> str:
        return f"{kind}-{number:06d}.json"

    def _read(self, kind: str, number: int) -> Columns:
        file = self.path / self._name(kind, number)
        try:
            values: Columns = parse_json(file.read_text("utf-8"))
        except ValueError as error:
            raise DataError(f"{file}: damaged ({error}).", hint=f"Remove {self.path} and start again.") from error
        return values

    def _write(self, name: str, values: Any) -> None:
        # A name of its own: a worker that was given up may still be writing the same block.
        temporary = self.path / f".{name}.{uuid.uuid4().hex}"
        with disk_errors(self.path):
            try:
                with temporary.open("w", encoding="utf-8") as stream:
                    json.dump(values, stream)
                os.replace(temporary, self.path / name)
            finally:
                temporary.unlink(missing_ok=True)
