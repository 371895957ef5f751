"""JSON files: a list of objects, objects one after another, or an object of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palbert.errors import DataError
from palbert.readers.chunk import Chunk
from palbert.readers.encodings import open_text
from palbert.readers.headers import check_names
from palbert.readers.json_lines import Item, object_chunks
from palbert.readers.json_values import check_unicode, read_value

BLANK = re.compile(r"[ \t\r\n]*")


def read_json(file: Path, *, encoding: str | None, size: int) -> Iterator[Chunk]:
    """Read a JSON file in chunks; its text is in memory as a whole, its objects are not."""
    with open_text(file, encoding=encoding, newline="") as stream:
        text = Text(file, stream.read())
    if text.next() != "[":
        columns = text.columns()
        if columns is not None:
            yield from _column_chunks(file, columns, size)
            return
    yield from object_chunks(file, text.listed() if text.next() == "[" else text.sequence(), size=size)


class Text:
    """The text of a JSON file, with a place in it.

    Args:
        file: The file, for messages.
        text: Its text.
    """

    def __init__(self, file: Path, text: str) -> None:
        self.file = file
        self.text = text
        self.place = 0
        self.item = 0
        self.line = 1

    def next(self) -> str:
        """Skip blanks; return the next character, "" at the end."""
        found = BLANK.match(self.text, self.place)
        assert found is not None
        self._move(found.end())
        return self.text[self.place : self.place + 1]

    def columns(self) -> dict[str, list[Any]] | None:
        """Return the columns of a file that is one object of lists, or of objects with equal keys; None for others."""
        start = self.place, self.line
        if self.next() != "{":
            return None
        whole = self._value()
        alone, line = not self.next(), start[1]
        self.place, self.line = start
        if not (alone and whole):
            return None
        values = list(whole.values())
        if all(isinstance(value, dict) for value in values) and len({tuple(value) for value in values}) == 1:
            values = [list(value.values()) for value in values]  # as pandas writes tables
        if not all(isinstance(value, list) for value in values):
            self._refuse_inner_list(whole)
            return None
        lengths = {name: len(value) for name, value in zip(whole, values, strict=True)}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise DataError(f"{self.file}, line {line}: expected columns of the same length, found {found}.")
        check_unicode(str(self.file), values)
        check_names(f"{self.file}, line {line}", whole)
        return dict(zip(whole, values, strict=True))

    def _refuse_inner_list(self, whole: dict[str, Any]) -> None:
        """Raise DataError for an object with a list of objects in it, which may be the rows."""
        for name, value in whole.items():
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                raise DataError(
                    f"{self.file}, line {self.line}: expected a list of objects, found an object with one in '{name}'.",
                    hint=f"Save that list as a file of its own, for example: jq .{name} {self.file.name}",
                )

    def listed(self) -> Iterator[Item]:
        """Yield the objects of a list."""
        assert self.next() == "["
        self._move(self.place + 1)
        if self.next() == "]":
            self._move(self.place + 1)
            self._end()
            return
        while True:
            yield self._object()
            sign = self.next()
            if sign not in (",", "]"):
                raise self._wrong('"," or "]" behind it')
            self._move(self.place + 1)
            if sign == "]":
                self._end()
                return
            if self.next() == "]":
                raise self._wrong('another object behind the last ","')

    def sequence(self) -> Iterator[Item]:
        """Yield objects that follow one another, as in JSON lines."""
        while self.next():
            yield self._object()

    def _object(self) -> Item:
        self.item += 1
        self.next()
        line, start = self.line, self.place
        value = self._value()
        place = f"{self.file}, line {line}, item {self.item}"
        if not isinstance(value, dict):
            raise DataError(
                f"{place}: expected an object, found {self.text[start : start + 40]!r}.",
                hint='A row is written as {"text": "…", "label": "…"}.',
            )
        if "\\u" in self.text[start : self.place]:
            check_unicode(place, value)
        return line, value

    def _value(self) -> Any:
        item = f", item {self.item}" if self.item else ""
        try:
            value, end = read_value(self.text, self.place, place=f"{self.file}, line {self.line}{item}")
        except json.JSONDecodeError as error:
            line = self.line + self.text.count("\n", self.place, error.pos)
            raise DataError(f"{self.file}, line {line}{item}: not valid JSON: {error.msg}.") from error
        self._move(end)
        return value

    def _end(self) -> None:
        if self.next():
            raise self._wrong("nothing behind the list")

    def _wrong(self, expected: str) -> DataError:
        found = self.text[self.place : self.place + 20] or "the end of the file"
        return DataError(f"{self.file}, line {self.line}, item {self.item}: expected {expected}, found {found!r}.")

    def _move(self, place: int) -> None:
        self.line += self.text.count("\n", self.place, place)
        self.place = place


def _column_chunks(file: Path, columns: dict[str, list[Any]], size: int) -> Iterator[Chunk]:
    rows = len(next(iter(columns.values())))
    for start in range(0, max(rows, 1), size):
        part = {name: values[start : start + size] for name, values in columns.items()}
        yield Chunk(str(file), part, list(range(start + 1, min(start + size, rows) + 1)))
