"""Excel workbooks, by openpyxl: one sheet, with values as a CSV file would show them."""

from __future__ import annotations

import datetime
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from palbert.errors import DataError, MissingExtraError
from palbert.readers.chunk import Chunk, as_text
from palbert.readers.dialect import Dialect
from palbert.readers.headers import columns_by_name, name_columns
from palbert.runtime.spreadsheet import text_of_workbook_cell

Row = tuple[int, list[Any]]
DAMAGE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, ArithmeticError, AttributeError, EOFError, LookupError,
    MemoryError, NotImplementedError, OSError, RecursionError, RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""What openpyxl, zipfile and the XML parser raise about a damaged workbook."""


def read_excel(file: Path, *, dialect: Dialect, size: int) -> Iterator[Chunk]:
    """Read a sheet of a workbook in chunks; rows without any value are skipped."""
    with open_sheet(file, dialect.sheet) as sheet:
        rows = _rows(file, sheet)
        first = next(rows, (1, []))
        named = ["" if _is_blank(value) else as_text(value) or "" for value in first[1][: _width(first[1])]]
        header, is_row = name_columns(str(file), first[0], named, dialect.header)
        chunks = _chunks(file, header, chain([first], rows) if is_row else rows, size=size)
        chunk = next(chunks)
        _refuse_formulas(chunk, header, sheet=dialect.sheet)
        yield chunk
        yield from chunks


@contextmanager
def open_sheet(file: Path, name: str | None, *, formulas: bool = False) -> Iterator[Any]:
    """Open a sheet of a workbook, the first one unless it is named."""
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise MissingExtraError("Excel files need", package="openpyxl", extra="excel") from None
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=not formulas)
    except (*DAMAGE, InvalidFileException) as error:
        raise _unreadable(file) from error
    try:
        sheets = {sheet.title: sheet for sheet in book.worksheets}
        if name is not None and name not in sheets:
            raise DataError(f"{file}: no sheet '{name}'.", hint=f"The sheets are {', '.join(sheets)}.")
        if not sheets:
            raise DataError(f"{file}: the workbook has no sheet with cells.")
        sheet = sheets[name] if name is not None else next(iter(sheets.values()))
        sheet.reset_dimensions()  # some programs write wrong ones
        yield sheet
    finally:
        book.close()


def _rows(file: Path, sheet: Any) -> Iterator[Row]:
    """Yield the number and the values of every row that has any other than spaces."""
    for number, cells in enumerate(_readable(file, sheet.iter_rows()), 1):
        values = [_value(cell) for cell in cells]
        if _width(values):
            yield number, values


def _width(values: Sequence[Any]) -> int:
    """Return how many cells there are up to the last one that is not blank."""
    return max((count for count, value in enumerate(values, 1) if not _is_blank(value)), default=0)


def _is_blank(value: Any) -> bool:
    """Whether a cell looks empty: people leave spaces in cells without noticing."""
    return value is None or (isinstance(value, str) and not value.strip())


def _readable(file: Path, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield rows; a sheet can be damaged though the workbook opens."""
    try:
        yield from rows
    except DAMAGE as error:
        raise _unreadable(file) from error


def _unreadable(file: Path) -> DataError:
    return DataError(
        f"{file}: not an Excel workbook, or damaged, or protected by a password.",
        hint="Open it in a spreadsheet program and save it as .xlsx without a password.",
    )


def _value(cell: Any) -> Any:
    """Return the value of a cell; None for an empty text or an error of a formula, such as #N/A."""
    value = cell.value
    if isinstance(value, str):
        return None if cell.data_type == "e" or not value else text_of_workbook_cell(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() else value)
    return str(value) if isinstance(value, datetime.date | datetime.time | datetime.timedelta) else value


def _chunks(file: Path, header: list[str], rows: Iterator[Row], *, size: int) -> Iterator[Chunk]:
    width = len(header)
    lines: list[int] = []
    taken: list[list[Any]] = []
    started = False
    for number, row in rows:
        if (found := _width(row)) > width:
            raise DataError(
                f"{file}, line {number}: expected {width} field{'s' * (width > 1)}, found {found}.",
                hint="Give every column a name, or clear the cells next to the table.",
            )
        taken.append(row[:width] + [None] * (width - len(row)))
        lines.append(number)
        if len(taken) == size:
            yield _chunk(file, header, taken, lines)
            lines, taken, started = [], [], True
    if taken or not started:
        yield _chunk(file, header, taken, lines)


def _chunk(file: Path, header: list[str], rows: list[list[Any]], lines: list[int]) -> Chunk:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in header]
    return Chunk(str(file), columns_by_name(str(file), header, columns, lines), lines)


def _refuse_formulas(chunk: Chunk, header: list[str], *, sheet: str | None) -> None:
    """Raise DataError if columns are empty because no program has computed their formulas."""
    empty = [index for index, name in enumerate(header) if name and all(value is None for value in chunk.columns[name])]
    if not (empty and len(chunk)):
        return
    with open_sheet(Path(chunk.path), sheet, formulas=True) as cells:
        for row in cells.iter_rows(max_row=chunk.lines[-1]):
            for index in empty:
                if index < len(row) and row[index].data_type == "f":
                    place = f"{chunk.path}, line {row[index].row}"
                    raise DataError(
                        f"{place}: the formulas of '{header[index]}' have not been computed.",
                        hint="Open the file in a spreadsheet program and save it there.",
                    )
