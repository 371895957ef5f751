"""Headers: columns are named by the first line, by a list or by numbers, and a first line of data is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers import no_column
from palbert.readers.headers import headless_hint, name_columns

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]

ROWS = "a fine film,1\nnot, bad\n"


@pytest.mark.parametrize("header", [None, True])
def test_the_first_line_names_the_columns_unless_told_otherwise(header: bool | None) -> None:
    assert name_columns("a.csv", 1, ["text", "label"], header) == (["text", "label"], False)


def test_columns_without_names_are_numbered(file: Write, read: Read) -> None:
    assert read(file("a.csv", ROWS), header=False) == {"1": ["a fine film", "not"], "2": ["1", " bad"]}


def test_columns_without_names_take_those_of_a_list(file: Write, read: Read) -> None:
    assert read(file("a.csv", ROWS), header=("text", "label")) == {
        "text": ["a fine film", "not"],
        "label": ["1", " bad"],
    }
    with pytest.raises(DataError, match="line 1: expected 1 field, found 2"):
        read(file("a.csv", ROWS), header=("text",))


@pytest.mark.parametrize("first", [["text", "label"], ["text"]])
def test_a_list_of_names_for_a_file_that_has_names_is_refused(first: list[str]) -> None:
    with pytest.raises(DataError, match=r"line 1: the file has a header of its own.*Leave header out"):
        name_columns("a.csv", 1, first, ("text", "label"))


@pytest.mark.parametrize(
    "names", [["good", "1"], ["good", "-2.5"], ["3,5", "x"], ["It was good.", "pos"], ["a b c d e f", "x"]]
)
def test_a_first_line_that_looks_like_data_is_answered_with_the_line_to_write(names: list[str]) -> None:
    error = str(no_column("a.csv", "text", names))
    assert "header = false" in error and 'header = ["text", "label"]' in error


def test_a_name_that_is_also_a_value_looks_like_data() -> None:
    assert "header = false" in str(no_column("a.csv", "text", {"fine": ["bad"], "pos": ["neg", "pos"]}))
    assert headless_hint("a.csv", ["text", "label"], {"text": ["bad"], "label": ["neg", "pos"]}) == ""


def test_names_in_json_and_parquet_are_never_taken_for_data() -> None:
    for name in ("a.jsonl", "a.json.gz", "a.parquet"):
        assert "header" not in str(no_column(name, "text", ["1", "3"]))


def test_equal_names_in_a_first_line_of_data_are_answered_with_the_line_to_write() -> None:
    with pytest.raises(DataError, match=r"two columns are named '1'.*header = false"):
        name_columns("a.csv", 1, ["good", "1", "1"], None)


def test_numbered_columns_are_answered_with_how_to_name_them() -> None:
    assert 'header = ["text", "label"]' in str(no_column("a.csv", "text", ["1", "2"]))


@pytest.mark.parametrize("sign", [";", "|", ","])
def test_a_header_that_was_not_separated_is_answered_with_the_separator(sign: str) -> None:
    error = str(no_column("a.csv", "text", [f"text{sign}label"]))
    assert f'separator = "{sign}"' in error and "Known" not in error


def test_a_hundred_thousand_columns_are_compared_by_a_set() -> None:
    names = [f"c{number}" for number in range(100_000)]
    assert name_columns("a.csv", 1, names, None) == (names, False)
    with pytest.raises(DataError, match="two columns are named 'c0'"):
        name_columns("a.csv", 1, [*names, "c0"], None)


@pytest.mark.parametrize("other", ["text ", " text", "text\u00a0", "\ufefftext"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json"])
def test_names_that_differ_by_what_nobody_sees_are_one_name(kind: str, other: str, file: Write, read: Read) -> None:
    written = {
        "csv": f"text,{other}\n1,2\n",
        "tsv": f"text\t{other}\n1\t2\n",
        "jsonl": json.dumps({"text": 1, other: 2}) + "\n",
        "json": json.dumps({"text": [1], other: [2]}),
    }
    with pytest.raises(DataError, match="two columns are named 'text'"):
        read(file(f"a.{kind}", written[kind]))


def test_of_columns_without_a_name_no_value_is_lost(file: Write, read: Read) -> None:
    assert read(file("a.csv", "text,,\na,,2\nb,,\n")) == {"text": ["a", "b"], "": ["2", ""]}
    with pytest.raises(DataError, match=r"line 3: two columns have values but no name, here '2'"):
        read(file("b.csv", "text,,\na,1,\nb,,2\n"))


def test_a_wide_file_is_read_and_refused_at_once(file: Write, read: Read) -> None:
    names = [f"column{number}" for number in range(100_000)]
    path = file("a.csv", ",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    assert len(read(path)) == len(names)
    assert len(str(no_column(str(path), "text", names))) < 2000


def test_a_file_without_rows_is_not_said_to_lack_a_header() -> None:
    error = no_column("a.jsonl", "text", [])
    assert str(error) == "a.jsonl: no column 'text'. The file has no rows, or rows without any column."
