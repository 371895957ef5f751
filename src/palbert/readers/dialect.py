"""Dialect: how files write their rows, as far as their names do not say it."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

Quoting = Literal["auto", "on", "off"]
Decimal = Literal[".", ","]
Header = bool | tuple[str, ...]
NOT_OF_FILES = {"idna", "punycode", "raw_unicode_escape", "unicode_escape", "undefined", "mbcs", "oem"}
"""Codecs of names, of Python source and of one system, which Python counts as text encodings."""


@dataclass(frozen=True)
class Dialect:
    """How files write their rows; what is left open is recognised from each file."""

    quoting: Quoting = "auto"
    """Whether fields may be quoted; "auto" reads .csv with quotes and .tsv without."""
    separator: str | None = None
    """The character between fields; "" for files of one column."""
    encoding: str | None = None
    """How letters are written, such as "windows-1252"."""
    header: Header | None = None
    """Whether the first line names the columns, or their names where it does not."""
    sheet: str | None = None
    """The sheet of an Excel workbook; the first one unless given."""
    decimal: Decimal | None = None
    """The decimal sign of numbers."""

    def quoted(self, suffix: str) -> bool:
        """Whether fields may be quoted in files with this suffix."""
        return self.quoting == "on" or (self.quoting == "auto" and suffix == ".csv")


PLAIN = Dialect()
"""Nothing is given, everything is recognised."""


def check_separator(separator: object) -> str:
    """Return a separator; raise ValueError unless it is one character that can separate fields."""
    if separator in (r"\t", "tab"):
        return "\t"
    if (
        not isinstance(separator, str)
        or len(separator) > 1
        or separator.isalnum()
        or separator in ("'", '"', "\n", "\r")
    ):
        raise ValueError(
            f'expected a sign such as ";", "\\t" for a tab, or "" for a file of one column, found {separator!r}'
        )
    return separator


def check_encoding(encoding: object) -> str:
    """Return the name of an encoding; raise ValueError if Python knows no such encoding of text."""
    try:
        known = codecs.lookup(encoding) if isinstance(encoding, str) else None
    except (LookupError, ValueError):
        known = None
    if known is None or not known._is_text_encoding or known.name.replace("-", "_") in NOT_OF_FILES:
        raise ValueError(f'expected an encoding such as "utf-8", "utf-16" or "windows-1252", found {encoding!r}')
    return str(encoding)


def check_header(header: object) -> Header:
    """Return a header; raise ValueError for no names, empty ones or the same name twice."""
    if isinstance(header, bool):
        return header
    names = tuple(header) if isinstance(header, list | tuple) else ()
    if (
        not names
        or not all(isinstance(name, str) and name.strip() for name in names)
        or (len({name.strip() for name in names}) < len(names))
    ):
        raise ValueError(
            f'expected true, false or a different name for each column, ["text", "label"], found {header!r}'
        )
    return names
