"""JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
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
    return Chunk(str(file), {name: [row.get(name) for row in rows] for name in names}, lines)
