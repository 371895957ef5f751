"""Parquet files give the same columns as text files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

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
