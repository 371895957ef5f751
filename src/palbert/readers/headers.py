"""Headers: the names of a file's columns, and what to do where its first line holds none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from palbert.errors import DataError, did_you_mean, listed
from palbert.readers.dialect import Header

WITH_HEADER = (".csv", ".tsv", ".xlsx")
"""Files whose first line names the columns."""
AROUND = " \t\r\n\u00a0\u200b\ufeff"
"""Invisible characters at the ends of a name: spaces, line breaks, byte order marks."""
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE | re.ASCII)
"""A number, which is not the name of a column."""
WORDS = 6
"""A first line with a field of so many words is data rather than names."""


def name_columns(path: str, line: int, first: Sequence[str], header: Header | None) -> tuple[list[str], bool]:
    """Return the names of the columns, and whether the first line is a row.

    Args:
        path: The file.
        line: The number of its first line.
        first: The fields of that line.
        header: Whether the line holds the names, or the names; it does unless given.
    """
    if header is False:
        return [str(number) for number, _ in enumerate(first, 1)], True
    if isinstance(header, tuple):
        if first and set(first) <= set(header):
            raise DataError(
                f"{path}, line {line}: the file has a header of its own: {listed(first)}.",
                hint="Leave header out for this file.",
            )
        return list(header), True
    if not any(name.strip() for name in first):
        raise DataError(f"{path}, line {line}: expected a header with column names, found none.")
    check_names(f"{path}, line {line}", filter(str.strip, first), hint=headless_hint(path, first))
    return list(first), False


def check_names(place: str, names: Iterable[str], *, hint: str = "") -> None:
    """Raise DataError if two columns have one name; spaces and byte order marks around it do not make it another."""
    if (name := repeated(each.strip(AROUND) for each in names)) is not None:
        hint = hint or "Rename one of them; spaces around a name do not make it another."
        raise DataError(f"{place}: two columns are named '{name:.80}'.", hint=hint)


def columns_by_name(
    path: str, header: Sequence[str], columns: Sequence[list[Any]], lines: Sequence[int]
) -> dict[str, list[Any]]:
    """Return columns by their names, which only empty ones may share; of columns without a name, one can be kept.

    Args:
        path: The file.
        header: The name of each column.
        columns: The values of each column.
        lines: The line of each row.
    """
    found: dict[str, list[Any]] = {}
    for name, column in zip(header, columns, strict=True):
        if name in found and _first_value(found[name]) is not None:
            if (row := _first_value(column)) is not None:
                raise DataError(
                    f"{path}, line {lines[row]}: two columns have values but no name, here {column[row]!r:.40}.",
                    hint="Name them in the first line, or remove one.",
                )
            continue
        found[name] = column
    return found


def _first_value(column: Sequence[Any]) -> int | None:
    return next((row for row, value in enumerate(column) if value not in (None, "")), None)


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs twice; None if all differ."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def headless_hint(path: str, names: Sequence[str], values: Mapping[str, Sequence[Any]] | None = None) -> str:
    """Return what to write if the names of columns look like data; nothing if they do not.

    Args:
        path: The file; only some kinds of files can lack a header.
        names: What the first line holds.
        values: Values of these columns, as a name that is also a value is data.
    """
    if Path(path.removesuffix(".gz")).suffix.lower() not in WITH_HEADER:
        return ""
    found = next((name for name in names if _looks_like_data(name) or name in (values or {}).get(name, ())), None)
    if found is None:
        return ""
    shown = f"{found[:40]}…" if len(found) > 40 else found
    width = len(values or names)
    last = f' to "{width}"' if width > 1 else ""
    return (
        f'The first line looks like data ("{shown}"). If the file has no header, write header = false, which names the '
        f'columns "1"{last}, or a name for each, as in header = [{_example(width)}].'
    )


def no_column(path: str, name: str, known: Sequence[str] | Mapping[str, Sequence[Any]]) -> DataError:
    """Return the error for a column that a file does not have, with the likely remedy.

    Args:
        path: The file.
        name: The column.
        known: The columns that it has, with some of their values if these are at hand.
    """
    names = [column for column in known if column]
    values = known if isinstance(known, Mapping) else {}
    if not names:
        return DataError(f"{path}: no column '{name}'.", hint="The file has no rows, or rows without any column.")
    if names == [str(number) for number, _ in enumerate(names, 1)]:
        hint = f'The columns have no names. Name them, as in header = [{_example(len(names))}], or write text = "1".'
        return DataError(f"{path}: no column '{name}'.", hint=hint)
    if len(names) == 1 and (separator := next((sign for sign in ";\t|," if sign in names[0]), None)):
        sign = "\\t" if separator == "\t" else separator
        hint = f'Its only column is "{names[0]}". If fields are separated by this sign, write separator = "{sign}".'
        return DataError(f"{path}: no column '{name}'.", hint=hint)
    hint = headless_hint(path, names, values)
    if not hint:
        hint = did_you_mean(name, names)
        hint += (
            ""
            if "Did you mean" in hint
            else " Name one of them as the text or label column (on the command line: --column, --label)."
        )
    return DataError(f"{path}: no column '{name}'.", hint=hint)


def _looks_like_data(name: str) -> bool:
    """Whether a name is a number or a sentence."""
    text = name.strip()
    if len(text.split()) >= WORDS or (" " in text and text.endswith((".", "!", "?"))):
        return True
    return NUMBER.fullmatch(text) is not None


def _example(width: int) -> str:
    names = ["text", "label", *(f"column{number}" for number in range(3, min(width, 6) + 1))]
    return ", ".join([*(f'"{name}"' for name in names[:width]), *(["…"] if width > len(names) else [])])
