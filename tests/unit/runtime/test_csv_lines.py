"""CSV lines read back as they were written."""

from __future__ import annotations

import csv
import io

from palbert.runtime.csv_lines import CSVWriter


def test_csv_with_any_field_reads_back_unchanged() -> None:
    rows = [["id", "text"], ["1", "a\rb"], ["2", "a\nb"], ["3", 'a "b", c'], ["4", "a\r\n"], ["5", ""]]
    buffer = io.StringIO(newline="")
    writer = CSVWriter(buffer)
    for row in rows:
        writer.writerow(row)
    assert list(csv.reader(io.StringIO(buffer.getvalue(), newline=""))) == rows
    assert buffer.getvalue().startswith("id,text\n1,")
