"""Table writers: columns as files of every kind, a chunk at a time; a file appears when it is complete."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from palbert.errors import DataError, MissingExtraError
from palbert.readers import as_text
from palbert.runtime.csv_lines import CSVWriter
from palbert.runtime.files import new_file
from palbert.runtime.spreadsheet import safe_cell, workbook_cell

Write = Callable[[dict[str, list[Any]]], None]
Opener = Callable[[Path], AbstractContextManager[Write]]
LONGEST_CELL = 32_767
MOST_ROWS = 1_048_576
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What makes a workbook unreadable: https://www.w3.org/TR/xml/#charsets."""


@contextmanager
def new_table(output: Path, *, spreadsheet_safe: bool = False, replace: bool = True) -> Iterator[Write]:
    """Give a function that appends columns; the output appears when the block ends without an error.

    Args:
        output: The file to write.
        spreadsheet_safe: Escape texts that a spreadsheet program may take for a formula; only for its kinds of files.
        replace: Whether a file that has the name by then is replaced; otherwise it is an error.
    """
    opener = _opener(output)
    if spreadsheet_safe and not is_for_spreadsheets(output):
        raise DataError(
            f"{output}: no spreadsheet program computes texts of this kind of file.",
            hint="Leave --spreadsheet-safe out (in Python: spreadsheet_safe), or write .csv, .tsv or .xlsx.",
        )
    with new_file(output, replace=replace) as temporary, opener(temporary) as write:

        def write_named(columns: dict[str, list[Any]]) -> None:
            try:
                write(_safe(columns) if spreadsheet_safe else columns)
            except DataError as error:
                raise DataError(f"{output}: {error.message}", hint=error.hint) from error

        yield write_named


def is_for_spreadsheets(output: Path) -> bool:
    """Whether spreadsheet programs open files of this name."""
    return _opener(output) not in (_open_jsonl, _open_packed_jsonl, _open_parquet)


def _safe(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return columns whose names and texts are no formulas; numbers stay."""
    return {
        safe_cell(name): [
            value if value is None or isinstance(value, bool | int | float) else safe_cell(as_text(value) or "")
            for value in values
        ]
        for name, values in columns.items()
    }


def holds_lists(output: Path) -> bool:
    """Whether a file of this name can hold lists in its cells."""
    return not is_for_spreadsheets(output)


def _opener(output: Path) -> Opener:
    name = output.name.lower()
    for suffix, opener in OPENERS.items():
        if name.endswith(suffix):
            return opener
    raise DataError(f"{output}: unknown kind of file to write.", hint=f"Known: {', '.join(OPENERS)}.")


@contextmanager
def _open_text(path: Path, *, packed: bool) -> Iterator[TextIO]:
    if not packed:
        with path.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        return
    # Neither name nor time, so that equal rows give equal files.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as archive,
        io.TextIOWrapper(cast(Any, archive), encoding="utf-8", newline="") as stream,
    ):
        yield stream


@contextmanager
def _open_csv(path: Path, *, packed: bool = False) -> Iterator[Write]:
    with _open_text(path, packed=packed) as stream:
        yield _rows_with_header(CSVWriter(stream).writerow)


@contextmanager
def _open_tsv(path: Path, *, packed: bool = False) -> Iterator[Write]:
    """Write without quotes, as palbert and others read .tsv."""
    with _open_text(path, packed=packed) as stream:

        def write_row(row: Iterable[Any]) -> None:
            fields = [field or "" for field in row]
            for field in fields:
                if re.search(r"[\t\n\r]", field):
                    raise DataError(
                        f"a .tsv file cannot hold a tab or a line break in a field, found {field!r:.60}.",
                        hint="Write .csv, .jsonl or .parquet.",
                    )
            stream.write("\t".join(fields) + "\n")

        yield _rows_with_header(write_row)


def _rows_with_header(write_row: Callable[[Iterable[Any]], None]) -> Write:
    """Return a function that writes columns as rows of text, with their names in front of the first ones."""
    started = False

    def write(columns: dict[str, list[Any]]) -> None:
        nonlocal started
        if not started:
            write_row(columns)
            started = True
        for row in zip(*columns.values(), strict=True):
            write_row([as_text(value) for value in row])

    return write


@contextmanager
def _open_jsonl(path: Path, *, packed: bool = False) -> Iterator[Write]:
    with _open_text(path, packed=packed) as stream:

        def write(columns: dict[str, list[Any]]) -> None:
            for row in zip(*columns.values(), strict=True):
                stream.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=str) + "\n")

        yield write


def _open_packed_csv(path: Path) -> AbstractContextManager[Write]:
    return _open_csv(path, packed=True)


def _open_packed_tsv(path: Path) -> AbstractContextManager[Write]:
    return _open_tsv(path, packed=True)


def _open_packed_jsonl(path: Path) -> AbstractContextManager[Write]:
    return _open_jsonl(path, packed=True)


@contextmanager
def _open_excel(path: Path) -> Iterator[Write]:
    try:
        import openpyxl
        from openpyxl.cell import WriteOnlyCell
    except ImportError:
        raise MissingExtraError("Excel files need", package="openpyxl", extra="excel") from None
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    written = 0

    def cell(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        text = as_text(value) or ""
        stored = workbook_cell(text)
        if len(stored) > LONGEST_CELL or NOT_IN_XML.search(stored):
            raise DataError(
                f"a cell of an .xlsx file holds {LONGEST_CELL:,} characters and no control signs, found {text!r:.60}.",
                hint="Write .csv, .jsonl or .parquet.",
            )
        made = WriteOnlyCell(sheet, stored)
        made.data_type = "s"  # also for a text that begins with "=", which would become a formula
        return made

    def write_row(row: Iterable[Any]) -> None:
        nonlocal written
        if written == MOST_ROWS:
            raise DataError(f"a sheet holds up to {MOST_ROWS:,} rows.", hint="Write .csv, .jsonl or .parquet.")
        sheet.append([cell(value) for value in row])
        written += 1

    def write(columns: dict[str, list[Any]]) -> None:
        if not written:
            write_row(columns)
        for row in zip(*columns.values(), strict=True):
            write_row(row)

    try:
        yield write
    except BaseException:
        book.save(io.BytesIO())  # closes and removes the temporary file of openpyxl
        raise
    book.save(path)


@contextmanager
def _open_parquet(path: Path) -> Iterator[Write]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet files need", package="pyarrow", extra="parquet") from None
    writers: list[Any] = []

    def type_of(values: list[Any]) -> Any:
        try:
            found = pyarrow.array(values).type
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # of several types, as JSON allows
            return pyarrow.string()
        if pyarrow.types.is_list(found) and pyarrow.types.is_null(found.value_type):
            return pyarrow.list_(pyarrow.string())  # empty lists have no kind, and later ones may hold classes
        return pyarrow.string() if pyarrow.types.is_null(found) else found  # only missing values

    def write(columns: dict[str, list[Any]]) -> None:
        if not writers:
            fields = [(name, type_of(values)) for name, values in columns.items()]
            writers.append(pyarrow.parquet.ParquetWriter(path, pyarrow.schema(fields), write_page_checksum=True))
        schema = writers[0].schema
        texts = {field.name for field in schema if field.type == pyarrow.string()}
        given = {
            name: [as_text(value) for value in values] if name in texts else values for name, values in columns.items()
        }
        try:
            writers[0].write_table(pyarrow.table(given, schema=schema))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise DataError(
                f"a .parquet file has one type of value per column: {error}.", hint="Write .jsonl or .csv."
            ) from error

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()


OPENERS: dict[str, Opener] = {
    ".csv": _open_csv,
    ".tsv": _open_tsv,
    ".jsonl": _open_jsonl,
    ".csv.gz": _open_packed_csv,
    ".tsv.gz": _open_packed_tsv,
    ".jsonl.gz": _open_packed_jsonl,
    ".xlsx": _open_excel,
    ".parquet": _open_parquet,
}
"""What opens a file to write, by the end of its name."""
