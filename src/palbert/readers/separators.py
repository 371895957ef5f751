"""Separators: which sign separates the fields of a file, from its header and its first rows."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from palbert.errors import DataError

SAMPLE = 1 << 16
"""How many characters are looked at."""
CANDIDATES = (",", ";", "|")
"""Signs that also occur in texts; a tab in the header needs no further look."""
MARK = re.compile(r'"?sep=([^\w"])"?(?=[\r\n]|$)', re.IGNORECASE)
"""The line that some spreadsheet programs write in front of the header."""


@dataclass(frozen=True)
class Sample:
    """The beginning of a file of fields."""

    file: Path
    text: str
    suffix: str
    """.csv or .tsv."""
    quoted: bool
    """Whether fields may be quoted."""

    @property
    def header(self) -> str:
        """The first line."""
        found = re.match(r"[^\r\n]*", self.text)
        return found[0] if found else ""

    @property
    def mark(self) -> str | None:
        """The separator that a line in front of the header names."""
        found = MARK.match(self.text)
        return found[1] if found else None

    @property
    def only_returns(self) -> bool:
        """Whether lines end with a carriage return alone."""
        return "\r" in self.text and "\n" not in self.text

    def separator(self) -> str:
        """Return the separator, "" where the file has one column; raise DataError if several signs fit."""
        if "\t" in self.header:
            return "\t"
        usual = "\t" if self.suffix == ".tsv" else ","
        present = [sign for sign in CANDIDATES if sign in self.header]
        if not present:
            return usual if usual == "\t" else self._of_one_column()
        if present == [usual]:
            return usual
        shares = {sign: _share(self._widths(sign)) for sign in present}
        fitting = [sign for sign, share in shares.items() if share == 1]
        if usual == "\t":  # the name says so, and all rows must speak against it
            return fitting[0] if len(fitting) == 1 and len(self._widths(fitting[0])) > 1 else usual
        if len(fitting) > 1:
            signs = [f'"{sign}"' for sign in fitting]
            raise DataError(
                f"{self.file}: its fields may be separated by {' or '.join(signs)}.",
                hint=f"Write {' or '.join(f'separator = {sign}' for sign in signs)}.",
            )
        best = max(present, key=lambda sign: shares[sign])
        if shares[best] >= 0.5 and shares[best] > shares.get(usual, 0):
            return best
        return usual if usual in present else ""

    def _of_one_column(self) -> str:
        """Return the separator of a .csv file with one name in its header."""
        if max(self._widths(","), default=1) == 1:
            return ","
        for sign in (*CANDIDATES, "\t"):
            _, *rows = self._widths(sign)
            if len(rows) > 1 and min(rows) == max(rows) > 1:
                return sign  # the header lacks names, which reading the rows reports
        return ""

    def _widths(self, separator: str) -> list[int]:
        """Return the number of fields of each row, header first, if this were the separator."""
        stream = io.StringIO(self.text, newline="")
        rows = list(
            csv.reader(stream, delimiter=separator, quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE)
        )
        complete = len(self.text) < SAMPLE or len(rows) == 1
        return [len(row) for row in (rows if complete else rows[:-1]) if row]


def _share(widths: list[int]) -> float:
    """Return the share of rows that have as many fields as the header, if that has several."""
    header, *rows = widths or [1]
    if header == 1:
        return 0.0
    return sum(width == header for width in rows) / len(rows) if rows else 1.0
