"""JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from palbert.errors import DataError
from palbert.readers.chunk import Chunk
from palbert.readers.encodings import open_text
from palbert.readers.headers import check_names
from palbert.readers.json_values import check_unicode, read_value

Item = tuple[int, dict[str, Any]]
"""An object, and the line on which it begins."""


def read_json_lines(file: Path, *, encoding: str | None, size: int) -> Iterator[Chunk]:
    """Read a file of one object per line in chunks."""
    with open_text(file, encoding=encoding) as stream:
        yield from object_chunks(file, _objects(file, stream), size=size)


def object_chunks(file: Path, objects: Iterable[Item], *, size: int) -> Iterator[Chunk]:
    """Yield objects as chunks; there is at least one, which may be empty."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    started = False
    for number, row in objects:
        rows.append(row)
        lines.append(number)
        if len(rows) == size:
            yield _chunk(file, rows, lines)
            rows, lines, started = [], [], True
    if rows or not started:
        yield _chunk(file, rows, lines)


def _objects(file: Path, stream: Iterable[str]) -> Iterator[Item]:
    for number, line in enumerate(stream, 1):
        line = line.strip()
        if not line:
            continue
        try:
            row, end = read_value(line, 0, place=f"{file}, line {number}")
            if end < len(line):
                raise json.JSONDecodeError("Extra data", line, end)
        except json.JSONDecodeError as error:
            raise DataError(f"{file}, line {number}: not valid JSON: {error}.", hint=_hint(line)) from error
        if not isinstance(row, dict):
            raise DataError(f"{file}, line {number}: expected an object, found {line[:40]!r}.", hint=_hint(line))
        if "\\u" in line:
            check_unicode(f"{file}, line {number}", row)
        yield number, row


def _hint(line: str) -> str | None:
    """Return what to do with a file that holds JSON of another form."""
    if line.lstrip().startswith("[") or line.strip() == "{":
        return "Name the file .json if it is one list of objects."
    return None


def _chunk(file: Path, rows: list[dict[str, Any]], lines: list[int]) -> Chunk:
    names = dict.fromkeys(name for row in rows for name in row)
    check_names(f"{file}, line {lines[0] if lines else 1}", names)
    return Chunk(str(file), _Columns(rows, names), lines)


class _Columns(Mapping[str, list[Any]]):
    """The columns of objects, each made when it is asked for: there may be as many of them as rows."""

    def __init__(self, rows: list[dict[str, Any]], names: dict[str, None]) -> None:
        self.rows = rows
        self.names = names

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self.names:
            raise KeyError(name)
        return [row.get(name) for row in self.rows]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
