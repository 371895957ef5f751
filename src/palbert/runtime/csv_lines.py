"""CSV lines: CSV that reads back as written, with fields of any length."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any, TextIO


def allow_long_fields() -> None:
    """Let csv read fields above its default limit of 128 KiB."""
    csv.field_size_limit(2**31 - 1)  # the largest limit that every platform accepts


class CSVWriter:
    """Write CSV lines that end with a line feed, and quote carriage returns, which csv.writer would not do then.

    Args:
        stream: A text file opened with `newline=""`, or a buffer.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writer = csv.writer(self, lineterminator="\r\n")  # characters of the terminator are quoted

    def writerow(self, row: Iterable[Any]) -> None:
        """Write one row."""
        self._writer.writerow(row)

    def write(self, line: str) -> None:
        """Take a finished line from csv's writer."""
        self._stream.write(line.removesuffix("\r\n") + "\n")
