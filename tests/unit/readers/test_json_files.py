"""JSON files: lists of objects, objects in a row and objects of columns give the same rows as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers import column_names, count_rows

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]
Lines = Callable[[Path], list[int]]
ROWS = [{"text": "one", "label": 1}, {"text": "two", "label": None}, {"text": "drei ü", "label": 2.5}]
EXPECTED = {"text": ["one", "two", "drei ü"], "label": ["1", None, "2.5"]}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "".join(json.dumps(row) + "\n" for row in ROWS),
        "".join(json.dumps(row, indent=1) for row in ROWS),
        json.dumps({name: [row[name] for row in ROWS] for name in ("text", "label")}),
        json.dumps({name: {str(i): row[name] for i, row in enumerate(ROWS)} for name in ("text", "label")}),
    ],
    ids=["list", "indented list", "lines", "indented objects", "columns", "columns with index"],
)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_every_form_of_rows_gives_the_same_columns(file: Write, read: Read, content: str, size: int) -> None:
    path = file("a.json", content)
    assert read(path, size=size) == EXPECTED
    assert column_names(str(path)) == ["text", "label"]


@pytest.mark.parametrize("content", ["[]", "", " [ ] \n"])
def test_a_file_without_rows_has_no_columns(file: Write, read: Read, content: str) -> None:
    assert read(file("a.json", content)) == {}


def test_a_single_object_is_a_row(file: Write, read: Read) -> None:
    assert read(file("a.json", '{"text": "one", "label": 1}')) == {"text": ["one"], "label": ["1"]}


def test_rows_have_the_line_on_which_they_begin(file: Write, lines: Lines) -> None:
    assert lines(file("a.json", '[\n{"a": 1}, {"a":\n2},\n\n{"a": 3}]')) == [2, 2, 5]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[{"a": 1},\n{"a": 2,}]', "line 2, item 2: not valid JSON"),
        ('[{"a": 1}\n{"a": 2}]', 'line 2, item 1: expected "," or "]"'),
        ('[{"a": 1},\n]', "line 2, item 1: expected another object"),
        ('[{"a": 1},\n', "line 2, item 2: not valid JSON"),
        ('[{"a": 1}]\nx', "line 2, item 1: expected nothing behind the list"),
        ('[{"a": 1},\n["b"]]', "line 2, item 2: expected an object"),
        ('[{"a": 1}, {"a": "\\ud83d"}]', "item 2: expected valid Unicode"),
        ('{"a": [1, 2], "b": [1]}', "columns of the same length, found a 2, b 1"),
        ('{"version": 1, "data": [{"a": 1}]}', "one in 'data'.*jq .data"),
        ("[" * 100_000, "nested too deeply"),
        ("text", "line 1, item 1: not valid JSON"),
    ],
)
def test_what_is_not_rows_is_refused_with_line_and_item(file: Write, read: Read, content: str, said: str) -> None:
    with pytest.raises(DataError, match=rf"a\.json, .*{said}"):
        read(file("a.json", content))


def test_a_list_in_a_file_of_json_lines_is_refused_with_the_name_to_give(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match=r"Name the file .json"):
        read(file("a.jsonl", '[{"a": 1},\n{"a": 2}]'))


def test_rows_are_estimated_by_their_braces(file: Write) -> None:
    assert count_rows(str(file("a.json", json.dumps(ROWS)))) == 3
