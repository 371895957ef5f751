"""Reading: what holds for files of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers import SUFFIXES, count_rows, count_values, read_chunks

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_the_size_of_chunks_does_not_change_the_rows(file: Write, read: Read, suffix: str, size: int) -> None:
    if suffix == ".jsonl":
        content = "".join(json.dumps({"a": f"{row}", "b": "x"}) + "\n" for row in range(6))
    else:
        content = "a\tb\n" + "".join(f"{row}\tx\n" for row in range(6))
    path = file(f"a{suffix}", content)
    chunks = list(read_chunks(str(path), size=size))
    assert [len(chunk) for chunk in chunks] == [min(size, 6)] * -(-6 // size)
    assert read(path, size=size) == {"a": [str(row) for row in range(6)], "b": ["x"] * 6}


@pytest.mark.parametrize(("name", "content"), [("a.csv", "a,b\n"), ("a.tsv", "a\tb\n"), ("a.jsonl", "")])
def test_a_file_without_rows_gives_one_empty_chunk(file: Write, name: str, content: str) -> None:
    (chunk,) = read_chunks(str(file(name, content)))
    assert len(chunk) == 0


def test_an_unknown_file_format_is_refused_with_the_known_ones(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match="unknown kind of file") as caught:
        read(file("a.docx", "a\n"))
    assert all(suffix in str(caught.value) for suffix in SUFFIXES)


def test_rows_are_counted_without_loading_them(file: Write) -> None:
    path = file("a.tsv", "a\tb\n" + "1\t2\n" * 50)
    assert 50 <= count_rows(str(path)) <= 51


def test_values_of_a_column_are_counted_in_the_order_of_the_file(file: Write) -> None:
    path = file("a.csv", "text,label\nx,b\ny, a \nz,\nw,b\n")
    assert list(count_values(str(path), "label").items()) == [("b", 2), ("a", 1)]


def test_lists_of_values_count_as_their_values(file: Write) -> None:
    path = file("a.jsonl", '{"label": ["a", "b"]}\n{"label": []}\n{"label": null}\n{"label": ["b", 1]}\n')
    assert count_values(str(path), "label") == {"a": 1, "b": 2, "1": 1}


def test_a_file_without_rows_has_no_values(file: Write) -> None:
    assert count_values(str(file("a.jsonl", "")), "label") == {}
