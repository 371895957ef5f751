"""Parquet files, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palbert.errors import DataError, MissingExtraError, first_line
from palbert.readers.chunk import Chunk
from palbert.readers.headers import check_names


def open_parquet(file: Path) -> Any:
    """Return the file as pyarrow opens it; two columns of one name are an error."""
    with _readable(file, "not a Parquet file"):
        table = _pyarrow().parquet.ParquetFile(file, page_checksum_verification=True)
        names = table.schema_arrow.names
    check_names(str(file), names)
    return table


def read_parquet(file: Path, *, size: int) -> Iterator[Chunk]:
    """Read a Parquet file in chunks."""
    table = open_parquet(file)
    names: list[str] = table.schema_arrow.names
    first = 1
    with _readable(file, "the Parquet file is damaged, or has values that cannot be read"):
        batches = table.iter_batches(batch_size=size)
    while True:
        with _readable(file, "the Parquet file is damaged, or has values that cannot be read"):
            batch = next(batches, None)
            columns = {} if batch is None else {name: batch.column(at).to_pylist() for at, name in enumerate(names)}
        if batch is None:
            break
        yield Chunk(str(file), columns, list(range(first, first + batch.num_rows)))
        first += batch.num_rows
    if first - 1 != table.metadata.num_rows:
        raise DataError(
            f"{file}: the Parquet file is damaged: it has {table.metadata.num_rows} rows, found {first - 1}.",
            hint="Is the file complete? Write or copy it again.",
        )
    if first == 1:
        yield Chunk(str(file), {name: [] for name in names}, [])


@contextmanager
def _readable(file: Path, what: str) -> Iterator[None]:
    """Raise DataError for what pyarrow raises about a damaged file: its own errors, OSError, and those of Python."""
    pyarrow = _pyarrow()
    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        raise DataError(
            f"{file}: {what}: {first_line(error)}.", hint="Is the file complete? Write or copy it again."
        ) from error


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet files need", package="pyarrow", extra="parquet") from None
    return pyarrow
