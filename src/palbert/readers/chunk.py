"""Chunk: some rows of a file, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from palbert.errors import DataError
from palbert.readers.headers import no_column


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file. A missing field is None."""

    path: str
    columns: Mapping[str, list[Any]]
    """Values as the file has them: text in CSV and TSV, anything in other kinds of files."""
    lines: list[int]
    """The line on which each row begins, from 1 (in Parquet and JSON columns: the number of the row)."""

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str | None]:
        """Return a column as text; raise DataError with the known columns if it does not exist."""
        return [self._text(value, name, line) for value, line in self._cells(name)]

    def labels(self, name: str, *, lists: bool = False) -> list[str | list[str] | None]:
        """Return a column of labels, None for a row without one.

        Args:
            name: The column.
            lists: Whether a row may have any number of labels: lists are read, and an empty cell is a label too.
        """
        labels: list[str | list[str] | None] = []
        for value, line in self._cells(name):
            if lists and isinstance(value, list):
                labels.append([self._text(item, name, line) or "" for item in value])
            else:
                text = self._text(value, name, line) or ""
                labels.append(text if lists or text.strip() else None)
        return labels

    def _cells(self, name: str) -> Iterator[tuple[Any, int]]:
        if name not in self.columns:
            raise no_column(self.path, name, self.columns)
        return zip(self.columns[name], self.lines, strict=True)

    def _text(self, value: Any, name: str, line: int) -> str | None:
        if isinstance(value, list | dict):
            raise DataError(f"{self.path}, line {line}: expected a text or a number in '{name}', found {value!r:.60}.")
        if isinstance(value, bytes):
            try:
                return value.decode("utf-8")
            except UnicodeDecodeError:
                raise DataError(
                    f"{self.path}, line {line}: expected a text in '{name}', found bytes that are not UTF-8."
                ) from None
        return as_text(value)


def as_text(value: Any) -> str | None:
    """Return a value as the text that a CSV file would have for it; Booleans are 0 or 1, and NaN is an empty cell."""
    if value is None or isinstance(value, str):
        return value
    if value != value:
        return None
    return str(int(value)) if isinstance(value, bool) else str(value)
