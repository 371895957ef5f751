"""JSON lines: keys are columns, and errors name the line."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers.json_lines import read_json_lines

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]
Lines = Callable[[Path], list[int]]


def test_jsonl_fills_missing_keys_and_turns_values_into_text(file: Write, read: Read, lines: Lines) -> None:
    rows = [{"a": "x", "n": 1}, {"a": None, "n": 2.5}, {"n": True, "extra": "é"}]
    path = file("a.jsonl", "\n\n".join(json.dumps(row) for row in rows))
    assert read(path) == {"a": ["x", None, None], "n": ["1", "2.5", "1"], "extra": [None, None, "é"]}
    assert lines(path) == [1, 3, 5]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{'a': 1}", "line 2: not valid JSON"),
        ('{"a": 1', "line 2: not valid JSON"),
        ("[1]", "line 2: expected an object"),
        ('{"a": "cut \\ud83d"}', "line 2: expected valid Unicode, found half of a surrogate"),
    ],
)
def test_a_bad_json_line_is_refused_with_its_number(file: Write, read: Read, line: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read(file("a.jsonl", f'{{"a": 1}}\n{line}\n'))


def test_values_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.jsonl").write_text('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "utf-8")
    with pytest.raises(DataError, match=r"deep\.jsonl, line 1: the values are nested too deeply"):
        list(read_json_lines(tmp_path / "deep.jsonl", encoding=None, size=10))


def test_nan_is_an_empty_cell(file: Write, read: Read) -> None:
    assert read(file("a.jsonl", '{"label": NaN}\n{"label": 2}\n'))["label"] == [None, "2"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_key_that_occurs_twice_is_refused(name: str, file: Write, read: Read) -> None:
    with pytest.raises(DataError, match=r"line 2.*two values for 'label'"):
        read(file(name, '{"text": "a", "label": 1}\n{"text": "b", "label": 1, "label": 0}\n'))


def test_rows_with_keys_of_their_own_do_not_fill_a_table(file: Write) -> None:
    path = file("a.jsonl", "".join(f'{{"a": "x", "id{number}": 1}}\n' for number in range(2000)))
    tracemalloc.start()
    (chunk,) = read_json_lines(path, encoding=None, size=20_000)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(chunk.columns) == 2001 and chunk.columns["id3"][2:5] == [None, 1, None]
    assert used < 8_000_000  # a table of all keys has 4 million cells of 8 bytes
