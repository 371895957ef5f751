"""Parquet files, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palbert.errors import DataError, MissingExtraError
from palbert.readers.chunk import Chunk


def open_parquet(file: Path) -> Any:
    """Return the file as pyarrow opens it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet files need", package="pyarrow", extra="parquet") from None
    try:
        return pyarrow.parquet.ParquetFile(file)
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{file}: not a Parquet file: {str(error).rstrip('.')}.") from error


def read_parquet(file: Path, *, size: int) -> Iterator[Chunk]:
    """Read a Parquet file in chunks."""
    table = open_parquet(file)
    first = 1
    for batch in table.iter_batches(batch_size=size):
        columns = {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        yield Chunk(str(file), columns, list(range(first, first + batch.num_rows)))
        first += batch.num_rows
    if first == 1:
        yield Chunk(str(file), {name: [] for name in table.schema_arrow.names}, [])
