"""BlockFolder: the texts and answers of a file's blocks, as numbered files that workers on all machines see."""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from palbert.errors import DataError
from palbert.runtime.durable import sync_file, sync_folder
from palbert.runtime.files import disk_errors
from palbert.runtime.json_objects import parse_json
from palbert.verbs.engines.engine import Block, Columns

OWN = re.compile(r"(job|(texts|answers)-\d{6,})\.json|\.(job|(texts|answers)-\d{6,})\.json\.[0-9a-f]{32}|tries-\d{6,}")


class BlockFolder:
    """Numbered files of texts and answers, each with its SHA-256 in front.

    An answer file is written under another name, flushed and renamed: it is complete or not there, and a block that is
    scored twice replaces its own answers.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def cut(self, job: dict[str, Any], blocks: Iterator[Block]) -> list[int]:
        """Write the texts of all blocks; return how many rows each has. What the same job left is used again.

        Args:
            job: What determines the answers. What another job left is removed.
            blocks: The blocks, which are not read if the same job has cut them before.
        """
        with suppress(OSError, DataError, LookupError, TypeError):  # absent or damaged: the blocks are cut again
            former = self._read("job.json")
            if former["job"] == job:
                return [int(rows) for rows in former["rows"]]
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._empty()
        rows = []
        for number, block in enumerate(blocks):
            self._write(self._name("texts", number), block.texts)
            rows.append(block.rows)
        self._write("job.json", {"job": job, "rows": rows})  # last: with it, the texts are complete
        with disk_errors(self.path):
            sync_folder(self.path)
        return rows

    def has_answers(self, number: int) -> bool:
        """Return whether a block has been scored, and its answers are what was written."""
        try:
            self.answers(number)
        except (OSError, DataError):
            return False
        return True

    def texts(self, number: int) -> Columns:
        """Read the texts of a block."""
        return self._columns("texts", number)

    def answers(self, number: int) -> Columns:
        """Read the answers of a block."""
        return self._columns("answers", number)

    def write_answers(self, number: int, answers: Columns) -> None:
        """Write the answers of a block, or replace them."""
        self._write(self._name("answers", number), answers)

    def begin(self, number: int) -> int:
        """Note that a worker begins to score a block; return how often one has, since `forget_tries`."""
        with disk_errors(self.path), (self.path / f"tries-{number:06d}").open("ab") as stream:
            stream.write(b".")
            return stream.tell()

    def forget_tries(self) -> None:
        """Count from 0 how often workers begin to score blocks."""
        for path in self.path.glob("tries-*"):
            path.unlink(missing_ok=True)

    def is_scored(self) -> bool:
        """Return whether at least one block has been scored."""
        return any(self.path.glob("answers-*.json"))

    def remove(self) -> None:
        """Remove all blocks, and the folder unless somebody else has put files into it."""
        with suppress(OSError, DataError):
            self._empty()
            self.path.rmdir()

    def _empty(self) -> None:
        """Remove all blocks; raise DataError if the folder holds anything else."""
        found = sorted(self.path.iterdir())
        for path in found:
            if not OWN.fullmatch(path.name):
                raise DataError(
                    f"{path}: palbert did not write this, and would keep the blocks of a job here.",
                    hint="Move it away, or give another output.",
                )
        for path in found:
            path.unlink(missing_ok=True)

    @staticmethod
    def _name(kind: str, number: int) -> str:
        return f"{kind}-{number:06d}.json"

    def _columns(self, kind: str, number: int) -> Columns:
        values: Columns = self._read(self._name(kind, number))
        return values

    def _read(self, name: str) -> Any:
        file = self.path / name
        expected, _, content = file.read_bytes().partition(b"\n")
        try:
            if hashlib.sha256(content).hexdigest().encode() != expected:
                raise ValueError("its SHA-256 is another")
            return parse_json(content.decode("utf-8"))
        except ValueError as error:
            raise DataError(f"{file}: damaged ({error}).", hint=f"Remove {self.path} and start again.") from error

    def _write(self, name: str, values: Any) -> None:
        content = json.dumps(values).encode()
        # A name of its own: a worker that was given up may still be writing the same block.
        temporary = self.path / f".{name}.{uuid.uuid4().hex}"
        with disk_errors(self.path):
            try:
                temporary.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
                sync_file(temporary)
                os.replace(temporary, self.path / name)
            finally:
                temporary.unlink(missing_ok=True)
