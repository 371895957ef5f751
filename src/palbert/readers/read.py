"""Reading: files of every kind as chunks of columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from palbert.readers.chunk import Chunk
from palbert.readers.dialect import PLAIN, Dialect
from palbert.readers.encodings import open_text
from palbert.readers.excel import open_sheet, read_excel
from palbert.readers.files import open_bytes, resolve_files, suffix_of
from palbert.readers.json_files import read_json
from palbert.readers.json_lines import read_json_lines
from palbert.readers.parquet import open_parquet, read_parquet
from palbert.readers.separated import read_separated

CHUNK = 20_000


def read_chunks(path: str, *, dialect: Dialect = PLAIN, size: int = CHUNK) -> Iterator[Chunk]:
    """Read a file or a Hub data set in chunks; there is at least one, which may be empty."""
    for file in resolve_files(path):
        suffix = suffix_of(file)
        if suffix == ".jsonl":
            yield from read_json_lines(file, encoding=dialect.encoding, size=size)
        elif suffix == ".json":
            yield from read_json(file, encoding=dialect.encoding, size=size)
        elif suffix == ".parquet":
            yield from read_parquet(file, size=size)
        elif suffix == ".xlsx":
            yield from read_excel(file, dialect=dialect, size=size)
        else:
            yield from read_separated(file, dialect=dialect, size=size)


def read_lines(path: str) -> list[str]:
    """Read a plain text file with one text per line; blank lines are skipped."""
    with open_text(Path(path)) as stream:
        return [text for line in stream if (text := line.strip())]


def column_names(path: str, *, dialect: Dialect = PLAIN) -> list[str]:
    """Return the columns of a file; one of JSON objects is read to its end, as each may have its own."""
    names: dict[str, None] = {}
    for chunk in read_chunks(path, dialect=dialect):
        names |= dict.fromkeys(chunk.columns)
        if suffix_of(Path(chunk.path)) not in (".jsonl", ".json"):
            break
    return list(names)


def count_values(path: str, column: str, *, dialect: Dialect = PLAIN) -> dict[str, int]:
    """Return how often each value of a column occurs, as text and without spaces around it, in the file's order.

    Rows without a value are left out. A list of values counts as its values.
    """
    counts: dict[str, int] = {}
    for chunk in read_chunks(path, dialect=dialect):
        if not chunk.columns:
            continue  # JSONL without rows names no columns
        for cell in chunk.labels(column, lists=True):
            for value in cell if isinstance(cell, list) else [cell or ""]:
                if text := value.strip():
                    counts[text] = counts.get(text, 0) + 1
    return counts


def count_rows(path: str, *, dialect: Dialect = PLAIN) -> int:
    """Estimate the number of rows without parsing them; line breaks in texts make it too high."""
    return sum(_count(file, dialect) for file in resolve_files(path))


def _count(file: Path, dialect: Dialect) -> int:
    suffix = suffix_of(file)
    if suffix == ".parquet":
        return int(open_parquet(file).metadata.num_rows)
    if suffix == ".xlsx":
        with open_sheet(file, dialect.sheet) as sheet:
            return sum(1 for _ in sheet.iter_rows())
    sign = b"{" if suffix == ".json" else b"\n"
    with open_bytes(file) as stream:
        return sum(block.count(sign) for block in iter(lambda: stream.read(1 << 20), b""))
