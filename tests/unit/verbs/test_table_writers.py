"""Table writers: what is written reads back as it was, in files of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.errors import DataError
from palbert.readers import read_chunks
from palbert.verbs.table_writers import OPENERS, holds_lists, new_table

COLUMNS: dict[str, list[Any]] = {"text": ["a, b", "=1+1", 'ü; "x"'], "share": [0.25, None, 1]}


def read(path: Path) -> dict[str, list[str | None]]:
    columns: dict[str, list[str | None]] = {}
    for chunk in read_chunks(str(path)):
        for name in chunk.columns:
            columns.setdefault(name, []).extend(cell or None for cell in chunk.column(name))
    return columns


@pytest.mark.parametrize("suffix", OPENERS)
def test_every_kind_of_file_reads_back_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"out{suffix}"
    with new_table(output) as write:
        write({name: values[:2] for name, values in COLUMNS.items()})
        write({name: values[2:] for name, values in COLUMNS.items()})
        assert not output.exists()
    expected = {"text": COLUMNS["text"], "share": ["0.25", None, "1.0" if suffix == ".parquet" else "1"]}
    assert read(output) == expected


@pytest.mark.parametrize("suffix", OPENERS)
def test_an_error_leaves_no_file(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(KeyError), new_table(tmp_path / f"out{suffix}") as write:
        write(COLUMNS)
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_equal_rows_give_equal_archives(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        with new_table(tmp_path / name) as write:
            write(COLUMNS)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize("text", ["x" * 32_768, "x" * 32_766 + "\r", "bell \x07", "\ufffe", "\uffff"])
def test_what_a_cell_of_a_workbook_cannot_hold_is_refused(tmp_path: Path, text: str) -> None:
    with (
        pytest.raises(DataError, match=r"a\.xlsx: a cell of an \.xlsx file.*Write \.csv"),
        new_table(tmp_path / "a.xlsx") as write,
    ):
        write({"text": [text]})


@pytest.mark.parametrize("text", ["a\r\nb", "\r", "_x000D_", "_x0041_", "_x005F_x000D_", "\ud7ff\U0001ffff"])
@pytest.mark.parametrize("suffix", [suffix for suffix in OPENERS if ".tsv" not in suffix])
def test_signs_that_a_kind_of_file_lacks_are_read_as_they_were(tmp_path: Path, suffix: str, text: str) -> None:
    output = tmp_path / f"out{suffix}"
    with new_table(output) as write:
        write({"text": [text], f"a{text}": ["x"]})
    assert read(output) == {"text": [text], f"a{text}": ["x"]}


SAFE = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".xlsx")


@pytest.mark.parametrize("suffix", SAFE)
def test_formulas_are_escaped_on_request_and_numbers_stay(tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"out{suffix}"
    with new_table(output, spreadsheet_safe=True) as write:
        write({"=cmd()": ["@SUM(A1)", " =1", "a=b", "-5"], "share": [-0.25, None, -1, 2]})
    assert read(output) == {"'=cmd()": ["'@SUM(A1)", "' =1", "a=b", "-5"], "share": ["-0.25", None, "-1", "2"]}


@pytest.mark.parametrize("suffix", [suffix for suffix in OPENERS if suffix not in SAFE])
def test_a_file_without_formulas_cannot_be_escaped(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(DataError, match="Leave --spreadsheet-safe out"):
        new_table(tmp_path / f"out{suffix}", spreadsheet_safe=True).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_lists_are_held_by_jsonl_and_parquet_alone() -> None:
    assert {suffix for suffix in OPENERS if holds_lists(Path(f"a{suffix}"))} == {".jsonl", ".jsonl.gz", ".parquet"}


@pytest.mark.parametrize("name", ["a.json", "a.gz", "a", "a.parquet.gz"])
def test_other_kinds_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(DataError, match=r"unknown kind of file to write\. Known: \.csv, "):
        holds_lists(Path(name))
