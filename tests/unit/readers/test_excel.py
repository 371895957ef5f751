"""Excel workbooks: a sheet gives what its export as CSV would give."""

from __future__ import annotations

import datetime
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import DataError, MissingExtraError
from palbert.readers import count_rows

openpyxl = pytest.importorskip("openpyxl")

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]
Lines = Callable[[Path], list[int]]


def book(folder: Path, rows: list[list[Any]], **sheets: list[list[Any]]) -> Path:
    """Save a workbook with a first sheet and further ones."""
    made = openpyxl.Workbook()
    for sheet, content in [(made.active, rows), *((made.create_sheet(name), rows) for name, rows in sheets.items())]:
        for row in content:
            sheet.append(row)
    made.save(folder / "a.xlsx")
    return folder / "a.xlsx"


def test_values_are_those_of_a_csv_file(tmp_path: Path, read: Read) -> None:
    day = datetime.datetime(2024, 5, 1)
    rows: list[list[Any]] = [
        ["text", "number", "when"],
        ["a", 1.0, day],
        ["ü", 2.5, day.replace(hour=13)],
        ["", True, datetime.time(3, 4)],
    ]
    assert read(book(tmp_path, rows)) == {
        "text": ["a", "ü", None],
        "number": ["1", "2.5", "1"],
        "when": ["2024-05-01", "2024-05-01 13:00:00", "03:04:00"],
    }


def test_empty_rows_are_skipped_and_others_keep_their_numbers(tmp_path: Path, read: Read, lines: Lines) -> None:
    path = book(tmp_path, [[], ["text", "label"], ["a", 1], [], [None, "  "], ["b"], [], []])
    assert read(path) == {"text": ["a", "b"], "label": ["1", None]}
    assert lines(path) == [3, 6]
    assert count_rows(str(path)) >= 2


def test_cells_of_spaces_are_texts_as_in_a_csv_file_where_their_row_has_others(tmp_path: Path, read: Read) -> None:
    path = book(tmp_path, [["text", "note", " "], [" ", "x"], ["a", "\t", "  "], ["  ", " "], ["b"]])
    assert read(path) == {"text": [" ", "a", "b"], "note": ["x", "\t", None]}


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_the_size_of_chunks_does_not_change_the_rows(tmp_path: Path, read: Read, size: int) -> None:
    rows: list[list[Any]] = [["a", "b"], *([row, "x"] for row in range(5))]
    assert read(book(tmp_path, rows), size=size) == {"a": ["0", "1", "2", "3", "4"], "b": ["x"] * 5}


def test_the_first_sheet_is_read_unless_another_is_named(tmp_path: Path, read: Read) -> None:
    path = book(tmp_path, [["a"], [1]], second=[["b"], [2]])
    assert read(path) == {"a": ["1"]}
    assert read(path, sheet="second") == {"b": ["2"]}
    with pytest.raises(DataError, match=r"no sheet 'third'. The sheets are Sheet, second"):
        read(path, sheet="third")


def test_a_sheet_without_header_takes_names_or_numbers(tmp_path: Path, read: Read) -> None:
    path = book(tmp_path, [["good", 1], ["bad", 0]])
    assert read(path, header=False) == {"1": ["good", "bad"], "2": ["1", "0"]}
    assert read(path, header=("text", "label")) == {"text": ["good", "bad"], "label": ["1", "0"]}


def test_errors_of_formulas_are_missing_values(tmp_path: Path, read: Read) -> None:
    made = openpyxl.Workbook()
    for row in (["text", "label"], ["a", "#N/A"], ["b", "#N/A is fine"]):
        made.active.append(row)
    made.active["B2"].data_type = "e"
    made.save(tmp_path / "a.xlsx")
    assert read(tmp_path / "a.xlsx") == {"text": ["a", "b"], "label": [None, "#N/A is fine"]}


def test_formulas_that_were_never_computed_are_refused(tmp_path: Path, read: Read) -> None:
    with pytest.raises(DataError, match="line 2: the formulas of 'label' have not been computed"):
        read(book(tmp_path, [["text", "label"], ["a", "=1+1"], ["b", "=2+2"]]))
    assert read(book(tmp_path, [["text", "note"], ["a"], ["b"]])) == {"text": ["a", "b"], "note": [None, None]}


def test_cells_next_to_the_table_are_refused(tmp_path: Path, read: Read) -> None:
    with pytest.raises(DataError, match="line 2: expected 1 field, found 3"):
        read(book(tmp_path, [["text"], ["a", None, "note"]]))


@pytest.mark.parametrize("content", [b"", b"text\n", b"PK\x03\x04" + b"x" * 40, b"\xd0\xcf\x11\xe0"])
def test_a_file_that_is_not_a_workbook_is_refused(file: Write, read: Read, content: bytes) -> None:
    with pytest.raises(DataError, match="not an Excel workbook, or damaged, or protected"):
        read(file("a.xlsx", content))


def test_an_empty_sheet_is_refused(tmp_path: Path, read: Read) -> None:
    with pytest.raises(DataError, match="expected a header"):
        read(book(tmp_path, []))


def test_excel_without_openpyxl_is_refused_with_the_package_to_install(
    file: Write, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'palbert\[excel\]'"):
        read(file("a.xlsx", "text\n"))


def test_a_damaged_sheet_of_a_readable_workbook_is_refused(tmp_path: Path, read: Read) -> None:
    path = book(tmp_path, [["text", "label"], ["fine", 1]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/sheet1.xml"] = parts["xl/worksheets/sheet1.xml"][:-60]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match="damaged"):
        read(path)
