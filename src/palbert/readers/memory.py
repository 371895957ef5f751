"""Rows in memory: lists of dicts, tables of pandas, polars, pyarrow and datasets, and generators, written as JSONL.

No table library is imported: a table is recognised by the methods that it has.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from palbert.errors import DataError, MissingExtraError
from palbert.options import shown
from palbert.readers.headers import check_names
from palbert.runtime.files import new_file

Row = Mapping[str, Any]
FROM_ZERO = "counting from 0"
BATCH = 1000
EXAMPLE = '[{"text": "Great!", "label": 1}, ...]'
WRITTEN_AS_TEXT = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID, os.PathLike)


def write_rows(rows: Any, path: Path, *, name: str) -> int:
    """Write rows in memory as a JSONL file, one row at a time; return how many there are.

    Args:
        rows: A list, a generator or another iterable of dicts, a dict of columns, or a table: a DataFrame of pandas or
            polars, a pyarrow Table, a Dataset of Hugging Face, or anything with the Arrow stream interface.
        path: The file to write.
        name: What the rows are called in error messages, such as `data["tone"]`.
    """
    count = 0
    with new_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for number, row in enumerate(iterate_rows(rows, name=name)):
            place = f"{name}, row {number} ({FROM_ZERO})"
            _unique([str(key) for key in row], place)
            try:
                line = json.dumps({str(key): as_cell(value) for key, value in row.items()}, ensure_ascii=False)
                stream.write(line + "\n")
            except RecursionError:
                raise DataError(f"{place}: the values are nested too deeply.") from None
            except UnicodeEncodeError:
                raise DataError(f"{place}: expected valid Unicode, found half of a surrogate pair.") from None
            except ValueError as error:  # Python limits the digits of a whole number that is written as text
                raise DataError(f"{place}: a value cannot be written: {error}.") from None
            count += 1
    return count


def iterate_rows(rows: Any, *, name: str) -> Iterator[Row]:
    """Yield each row as a mapping from columns to values; raise DataError for anything that is not rows."""
    _refuse_other_things(rows, name)
    if hasattr(rows, "iter_rows"):  # polars
        return iter(rows.iter_rows(named=True))
    if hasattr(rows, "itertuples"):  # pandas
        columns = _unique([str(column) for column in rows.columns], name)
        return (dict(zip(columns, row, strict=True)) for row in rows.itertuples(index=False, name=None))
    if hasattr(rows, "to_pylist"):  # a pyarrow Table or RecordBatch
        _unique(rows.schema.names if hasattr(rows, "schema") else [], name)
        batches = rows.to_batches() if hasattr(rows, "to_batches") else [rows]
        return (row for batch in batches for row in batch.to_pylist())
    if hasattr(rows, "__arrow_c_stream__") and (hasattr(rows, "read_next_batch") or not hasattr(rows, "__iter__")):
        return _arrow_rows(rows, name)
    if isinstance(rows, Mapping):
        return _rows_of_columns(rows, name)
    if hasattr(rows, "features") and hasattr(rows, "iter"):  # datasets, whose batches are columns or tables
        return (row for batch in rows.iter(batch_size=BATCH) for row in iterate_rows(batch, name=name))
    return (_as_row(row, number, name) for number, row in enumerate(rows))


def as_cell(value: Any) -> Any:
    """Return a value as JSON has it: missing values are None, arrays are lists, scalars of NumPy are plain numbers."""
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return value
    if kind is float:
        return value if value == value else None  # NaN
    if isinstance(value, Mapping):
        return {str(key): as_cell(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_cell(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((as_cell(item) for item in value), key=str)
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy and torch
        found = value.tolist()
        return as_cell(found) if type(found) is not kind else _object(value)
    if hasattr(value, "to_list"):  # a Series in a cell
        return as_cell(value.to_list())
    return _as_scalar(value)


def _as_scalar(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return as_cell(value.value)
    if _is_missing(value):
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float):
        return value
    return str(value) if isinstance(value, WRITTEN_AS_TEXT) else _object(value)


def _is_missing(value: Any) -> bool:
    """Whether a value is NaN, NaT or pandas' NA, none of which is equal to itself."""
    try:
        return bool(value != value)
    except TypeError:  # NA is neither true nor false
        return True
    except Exception:
        return False


def _object(value: Any) -> dict[str, str]:
    """Return what stands for a value that a row cannot hold; it is an error only if a task reads its column."""
    return {"object": type(value).__name__}


def _refuse_other_things(rows: Any, name: str) -> None:
    """Raise DataError, with the remedy, for what is often taken for rows."""
    if isinstance(rows, list | tuple | Mapping):
        return
    found = f"found {_described(rows)}"
    if isinstance(rows, str | os.PathLike):
        raise DataError(
            f"{name}: expected rows, {found}.",
            hint='Name a file in the recipe instead: {"train": "file.csv"}; or read it and pass its rows.',
        )
    if hasattr(rows, "to_frame"):
        raise DataError(
            f"{name}: expected a table, {found}, which is one column.",
            hint="Pass the whole DataFrame; the recipe names its columns.",
        )
    if hasattr(rows, "collect") and not hasattr(rows, "__iter__"):
        raise DataError(f"{name}: expected rows, {found}, which has not read any yet.", hint="Call .collect() first.")
    if isinstance(rows, bytes) or not (
        hasattr(rows, "__iter__") or hasattr(rows, "__getitem__") or hasattr(rows, "__arrow_c_stream__")
    ):
        raise DataError(f"{name}: expected rows, {found}.", hint=f"Pass a table, or a list of dicts: {EXAMPLE}")


def _as_row(row: Any, number: int, name: str) -> Row:
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "_asdict"):  # a named tuple
        return dict(row._asdict())
    if hasattr(row, "keys") and hasattr(row, "__getitem__"):  # such as sqlite3.Row
        keys = _unique([str(key) for key in row.keys()], f"{name}, row {number} ({FROM_ZERO})")  # noqa: SIM118
        return {key: row[key] for key in keys}
    raise DataError(
        f"{name}, row {number} ({FROM_ZERO}): expected a dict from columns to values, found {_described(row)}.",
        hint=f'Name the columns: [dict(zip(("text", "label"), row)) for row in rows] gives {EXAMPLE}'
        if isinstance(row, Sequence) and not isinstance(row, str)
        else f"Pass rows such as {EXAMPLE}",
    )


def _rows_of_columns(columns: Mapping[Any, Any], name: str) -> Iterator[Row]:
    nested = next((key for key, column in columns.items() if isinstance(column, Mapping)), None)
    if nested is not None:
        raise DataError(
            f"{name}: expected lists as columns, found a dict in '{nested}'.",
            hint='Pass the table itself, or table.to_dict("list").',
        )
    single = [str(key) for key, column in columns.items() if isinstance(column, str) or not hasattr(column, "__len__")]
    if single:
        raise DataError(
            f"{name}: expected lists as columns, found {_described(columns[single[0]])} in '{single[0]}'.",
            hint="A single row goes into a list: [row].",
        )
    lengths = {str(key): len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} in '{key}'" for key, length in lengths.items())
        raise DataError(f"{name}: expected columns of one length, found {found}.")
    names = _unique(list(lengths), name)
    return (dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _arrow_rows(rows: Any, name: str) -> Iterator[Row]:
    """Read anything that offers the Arrow stream interface, which pyarrow understands."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(f"{name}: Arrow streams need", package="pyarrow", extra="parquet") from None
    reader = pyarrow.RecordBatchReader.from_stream(rows)
    _unique(reader.schema.names, name)
    return (row for batch in reader for row in batch.to_pylist())


def _unique(columns: list[str], name: str) -> list[str]:
    check_names(name, columns)
    return columns


def _described(value: Any) -> str:
    """Return the type of a value, with its text if it is one."""
    kind = type(value)
    if isinstance(value, str):
        return f"the text {value!r:.60}"
    module = kind.__module__.partition(".")[0]
    return f"{'' if module == 'builtins' else module + '.'}{kind.__name__}" + (
        f" {shown(value):.60}" if isinstance(value, Sequence | int | float) else ""
    )
