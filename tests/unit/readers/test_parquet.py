"""Parquet files give the same columns as text files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from palbert.errors import DataError, MissingExtraError
from palbert.readers import count_rows

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]
Lines = Callable[[Path], list[int]]


def test_parquet_gives_the_same_columns_as_text(read: Read, lines: Lines, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"text": ["a", None, "ü"], "label": [0, 1, 2], "score": [0.5, 1.0, None], "is": [True] * 3})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", size=2) == {
        "text": ["a", None, "ü"],
        "label": ["0", "1", "2"],
        "score": ["0.5", "1.0", None],
        "is": ["1", "1", "1"],
    }
    assert lines(tmp_path / "a.parquet") == [1, 2, 3]
    assert count_rows(str(tmp_path / "a.parquet")) == 3


def test_an_empty_parquet_file_still_has_its_columns(read: Read, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": arrow.array([], arrow.string())}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == {"text": []}


def test_a_parquet_file_with_other_content_is_refused(file: Write, read: Read) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match="not a Parquet file"):
        read(file("a.parquet", "text\n"))


def test_parquet_without_pyarrow_is_refused_with_the_package_to_install(
    file: Write, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'palbert\[parquet\]'"):
        read(file("a.parquet", "text\n"))


def test_two_columns_of_one_name_are_refused(tmp_path: Path, read: Read) -> None:
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="two columns are named 'text'"):
        read(tmp_path / "a.parquet")


def test_damaged_files_are_refused_wherever_the_damage_is(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"row {n}" for n in range(500)], "label": list(range(500))}), path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            read(path)
        except DataError as error:
            assert "a.parquet" in str(error)
            refused += 1
    assert refused > 50


def test_a_file_with_fewer_rows_than_it_says_is_refused(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: ["1", "2", "3"] for name in ("text", "label", "score")}), path)
    whole = path.read_bytes()
    lengths = set()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + b"\0" + whole[place + 1 :])
        try:
            lengths |= {len(column) for column in read(path).values()}
        except DataError as error:
            assert "a.parquet" in str(error)
    assert lengths == {3}


def test_bytes_are_text_if_they_are_utf8(tmp_path: Path, read: Read) -> None:
    pq.write_table(pa.table({"text": [b"caf\xc3\xa9"]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == {"text": ["café"]}
    pq.write_table(pa.table({"text": [b"\xff"]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="line 1: expected a text in 'text', found bytes"):
        read(tmp_path / "b.parquet")


def test_a_changed_page_with_a_checksum_is_refused(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"sentence number {row}" for row in range(100)]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"sentence number 7", b"sentence Number 7", 1))
    with pytest.raises(DataError, match="the Parquet file is damaged"):
        read(path)


def test_names_that_differ_by_spaces_are_one_name(read: Read, tmp_path: Path) -> None:
    pq.write_table(pa.table([pa.array(["1"]), pa.array(["2"])], names=["text", "text "]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="two columns are named 'text'"):
        read(tmp_path / "a.parquet")
