"""Encodings: letters are read as they were written, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "id,a\n1,x\n"), ("a.tsv", "id\ta\n1\tx\n"), ("a.jsonl", '{"id": 1, "a": "x"}\n')],
)
def test_a_byte_order_mark_is_not_part_of_the_first_column_name(
    file: Write, read: Read, name: str, content: str
) -> None:
    assert read(file(name, b"\xef\xbb\xbf" + content.encode())) == {"id": ["1"], "a": ["x"]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"a,b\nok,1\nna\xefve,2\n"),
        ("a.tsv", b"a\tb\nok\t1\nna\xefve\t2\n"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n{"a": "na\xefve"}\n'),
    ],
)
def test_text_that_is_not_utf8_is_refused_with_file_and_line(
    file: Write, read: Read, name: str, content: bytes
) -> None:
    path = file(name, content)
    with pytest.raises(DataError, match="line 3: expected UTF-8, found byte 0xef") as caught:
        read(path)
    assert str(path) in str(caught.value)


LETTERS = "text,label\nnaïve café,1\n"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_with_a_mark_are_recognised(file: Write, read: Read, name: str, encoding: str) -> None:
    text = LETTERS.replace(",", "\t")
    assert read(file(name, text.encode(encoding))) == {"text": ["naïve café"], "label": ["1"]}


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_both_byte_orders_are_recognised(file: Write, read: Read, mark: bytes) -> None:
    encoding = "utf-16-le" if mark[0] == 0xFF else "utf-16-be"
    for given in (None, "utf-16", encoding):
        assert read(file("a.csv", mark + LETTERS.encode(encoding)), encoding=given)["text"] == ["naïve café"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_refused_with_the_line_to_write(file: Write, read: Read, encoding: str) -> None:
    path = file("a.csv", LETTERS.encode(encoding))
    with pytest.raises(DataError, match=f'Write encoding = "{encoding}"'):
        read(path)
    with pytest.raises(DataError, match=f'needs a byte order mark.*encoding = "{encoding}"'):
        read(path, encoding="utf-16")
    assert read(path, encoding=encoding)["text"] == ["naïve café"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_old_encodings_are_refused_with_the_line_to_write_and_read_once_it_is_written(
    file: Write, read: Read, name: str
) -> None:
    text = LETTERS if name == "a.csv" else '{"text": "naïve café", "label": 1}\n'
    path = file(name, text.encode("windows-1252"))
    with pytest.raises(DataError, match=r'Write encoding = "windows-1252" if this reads well: ".*naïve café'):
        read(path)
    assert read(path, encoding="windows-1252") == {"text": ["naïve café"], "label": ["1"]}


def test_a_single_damaged_line_is_not_taken_for_an_encoding(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match=r"line 3: expected UTF-8, found byte 0xe9.*this line is damaged") as caught:
        read(file("a.csv", LETTERS.encode() + b"caf\xe9,2\n"))
    assert "windows" not in str(caught.value)


def test_utf8_is_not_read_as_an_encoding_of_one_byte_per_letter(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match=r'would read "ï" as "Ã¯".*encoding = "utf-8"'):
        read(file("a.csv", LETTERS.encode()), encoding="windows-1252")
    assert read(file("a.csv", "a,b\nx,1\n"), encoding="windows-1252") == {"a": ["x"], "b": ["1"]}


def test_an_encoding_that_contradicts_the_mark_is_refused(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match='mark of UTF-16, and the recipe has encoding = "windows-1252"'):
        read(file("a.csv", LETTERS.encode("utf-16")), encoding="windows-1252")
    assert read(file("a.csv", LETTERS.encode("utf-8-sig")), encoding="utf-8")["text"] == ["naïve café"]


def test_bytes_that_a_given_encoding_lacks_are_refused_with_their_line(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match="line 2: expected windows-1252, found byte 0x81"):
        read(file("a.csv", b"a,b\nx\x81,1\n"), encoding="windows-1252")
    with pytest.raises(DataError, match=r"line 2: expected UTF-16, found byte 0x0a.*damaged"):
        read(file("a.csv", "a,b\nx,1\n".encode("utf-16")[:-1]))
