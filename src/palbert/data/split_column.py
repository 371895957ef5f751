"""Split column: a column of a file that says whether a row belongs to train, dev or test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from palbert.errors import DataError
from palbert.readers import Chunk, read_chunks
from palbert.tasks.sets import DataFiles, Marked
from palbert.tasks.sources import SPLIT_NAMES, Split

SHOWN = 8
"""The most unknown values that an error lists."""


def rows_of_split(chunk: Chunk, marked: Marked | None) -> Chunk:
    """Return the rows of a chunk that are marked as belonging to a data set; all of them if there are no marks."""
    if marked is None or not chunk.columns:
        return chunk
    keep = [split in marked.splits for split in _splits(chunk, marked.column)]
    columns = {name: _kept(values, keep) for name, values in chunk.columns.items()}
    return replace(chunk, columns=columns, lines=_kept(chunk.lines, keep))


def marked_splits(files: DataFiles) -> set[Split]:
    """Return the splits that the rows of files are marked with."""
    assert files.marked is not None, "the files have a split column"
    found: set[Split] = set()
    for source in files.sources:
        for chunk in read_chunks(source.path, dialect=source.dialect_over(files.dialect)):
            found |= set(_splits(chunk, files.marked.column)) if chunk.columns else set()
    return found


def _splits(chunk: Chunk, column: str) -> list[Split]:
    cells = [(value or "").strip() for value in chunk.column(column)]
    places = zip(cells[::-1], chunk.lines[::-1], strict=True)  # the first line of each value is written last
    unknown = {cell: line for cell, line in places if cell.lower() not in SPLIT_NAMES}
    if unknown:
        found = ", ".join(f'"{cell}"' for cell in sorted(unknown)[:SHOWN]) + ", …" * (len(unknown) > SHOWN)
        raise DataError(
            f"{chunk.path}, line {min(unknown.values())}: expected train, dev or test in '{column}', found {found}.",
            hint=f"Known: {', '.join(SPLIT_NAMES)}.",
        )
    return [SPLIT_NAMES[cell.lower()] for cell in cells]


def _kept(values: list, keep: Iterable[bool]) -> list:  # type: ignore[type-arg]
    return [value for value, kept in zip(values, keep, strict=True) if kept]
