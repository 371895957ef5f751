"""Separated files: CSV and TSV, with or without quotes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from palbert.errors import DataError
from palbert.readers.chunk import Chunk
from palbert.readers.dialect import Dialect
from palbert.readers.encodings import open_text
from palbert.readers.files import suffix_of
from palbert.readers.headers import columns_by_name, name_columns
from palbert.readers.separators import SAMPLE, Sample
from palbert.runtime.csv_lines import allow_long_fields

NEVER = "\U0010ffff"
"""Not a character: csv needs a separator even where a file has one column."""
Row = tuple[int, list[str]]


def read_separated(file: Path, *, dialect: Dialect, size: int) -> Iterator[Chunk]:
    """Read a CSV or TSV file in chunks."""
    allow_long_fields()
    suffix = suffix_of(file)
    quoted = dialect.quoted(suffix)
    with open_text(file, encoding=dialect.encoding, newline="") as stream:
        sample = Sample(file, stream.read(SAMPLE), suffix=suffix, quoted=quoted)
    if dialect.separator is None:
        dialect = replace(dialect, separator=sample.mark or sample.separator())
    newline = "" if quoted else "\r" if sample.only_returns else "\n"
    with open_text(file, encoding=dialect.encoding, newline=newline) as stream:
        rows = _rows(file, stream, dialect.separator or "", quoted=quoted)
        if sample.mark is not None:
            next(rows)
        yield from _chunks(file, rows, dialect=dialect, size=size)


def _rows(file: Path, stream: TextIO, separator: str, *, quoted: bool) -> Iterator[Row]:
    """Yield each row with the line on which it begins."""
    if quoted or separator == ",":
        reader = csv.reader(
            stream,
            delimiter=separator or NEVER,
            quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            strict=True,  # otherwise an unclosed quote would turn the rest of the file into one text
        )
        return _numbered(file, reader)
    # csv would end a line at a lone carriage return within a field
    stripped = (line.rstrip("\r\n") for line in stream)
    separator = separator or NEVER
    return ((number, line.split(separator) if line else []) for number, line in enumerate(stripped, 1))


def _numbered(file: Path, reader: Any) -> Iterator[Row]:
    """Yield each row with the line on which it begins; csv counts the lines up to its end."""
    begin = 1
    try:
        for row in reader:
            yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        what = "a quote that opens here is never closed" if "unexpected end" in str(error) else str(error)
        raise DataError(
            f"{file}, line {begin}: {what}.",
            hint='Fix the row, or set quoting = "off" if quotes mean nothing here.',
        ) from error


def _chunks(file: Path, rows: Iterator[Row], *, dialect: Dialect, size: int) -> Iterator[Chunk]:
    first = next(rows, (1, []))
    header, is_row = name_columns(str(file), first[0], first[1], dialect.header)
    if is_row:
        rows = chain([first], rows)
    width, taken, lines = len(header), [], []
    started = False
    for number, row in rows:
        if not row:
            continue  # a blank line, as at the end of many files; a quoted "" is a row with an empty field
        if len(row) > width:
            raise _too_wide(file, number, row, width=width, separator=dialect.separator)
        taken.append(row + [None] * (width - len(row)) if len(row) < width else row)
        lines.append(number)
        if len(taken) == size:
            yield _chunk(file, header, taken, lines)
            taken, lines, started = [], [], True
    if taken or not started:
        yield _chunk(file, header, taken, lines)


def _too_wide(file: Path, line: int, row: Sequence[str], *, width: int, separator: str | None) -> DataError:
    """Return the error for a row with more fields than the header has names."""
    hint = 'Is the quoting right? Set quoting = "on" or "off".'
    if width == 1:
        hint = 'Name every column in the first line. If there is only one, write separator = "".'
    elif separator == "," and all(field.strip().isdigit() for field in row[-2:]):
        number = f"{row[-2].strip()},{row[-1].strip()}"
        hint = f'If {number} is a number with a decimal comma, write it in quotes, "{number}".'
    elif separator in (",", ";", "|"):
        hint = f'Write a field with "{separator}" in it in quotes, or set quoting = "on" or "off" if that is wrong.'
    return DataError(
        f"{file}, line {line}: expected {width} field{'s' * (width > 1)}, found {len(row)}.",
        hint=hint,
    )


def _chunk(file: Path, header: list[str], rows: list[Any], lines: list[int]) -> Chunk:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in header]
    return Chunk(str(file), columns_by_name(str(file), header, columns, lines), lines)
