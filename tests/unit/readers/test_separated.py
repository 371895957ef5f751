"""Separated files: fields, quotes and lines are those of the file, and errors name the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers import read_chunks

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]
Lines = Callable[[Path], list[int]]


def test_the_format_of_the_course_is_read(file: Write, read: Read) -> None:
    path = file("a.csv", '\tid\tsentence\tsentiment\n0\tx1\t"a ""b"", c"\t3.0\n1\tx2\tplain\t0\n')
    assert read(path) == {
        "": ["0", "1"],
        "id": ["x1", "x2"],
        "sentence": ['a "b", c', "plain"],
        "sentiment": ["3.0", "0"],
    }


def test_the_odd_header_of_the_course_test_files_is_read(file: Write, read: Read) -> None:
    path = file("a.csv", "0\t\tid\tsentence\n0\t8\tx1\tfirst\n1\t9\tx2\tsecond\n")
    assert read(path) == {"0": ["0", "1"], "": ["8", "9"], "id": ["x1", "x2"], "sentence": ["first", "second"]}


def test_repeated_column_names_are_refused_unless_they_are_empty(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match=r"a\.csv, line 1: two columns are named 'a'\."):
        read(file("a.csv", "a,b,a\n1,2,3\n"))
    assert set(read(file("b.csv", ",b,\n1,2,\n"))) == {"", "b"}


def test_a_tsv_has_no_quoting(file: Write, read: Read) -> None:
    path = file("a.tsv", 'a\tb\n"open\t1\n"closed"\t2\nin "the" middle\t3\n')
    assert read(path) == {"a": ['"open', '"closed"', 'in "the" middle'], "b": ["1", "2", "3"]}


@pytest.mark.parametrize(("name", "quoting"), [("a.tsv", "on"), ("a.csv", "auto"), ("a.csv", "on")])
def test_quoting_joins_a_field_over_several_lines(file: Write, read: Read, name: str, quoting: str) -> None:
    path = file(name, 'a\tb\n"one\ntwo"\t1\n')
    assert read(path, quoting=quoting) == {"a": ["one\ntwo"], "b": ["1"]}


@pytest.mark.parametrize("separator", [",", "\t"])
def test_quoting_off_keeps_the_quotes_of_a_csv(file: Write, read: Read, separator: str) -> None:
    path = file("a.csv", f'a{separator}b\n"x{separator}1\n')
    assert read(path, quoting="off") == {"a": ['"x'], "b": ["1"]}


@pytest.mark.parametrize(
    ("row", "said"), [('a,"never closed', "a quote that opens here is never closed"), ('a,"b"c', "expected after")]
)
def test_unbalanced_quotes_are_refused_with_the_first_line_of_the_row(tmp_path: Path, row: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(f'label,text\na,"two\nlines"\n{row}\nb,more\nb,and more\n', "utf-8")
    with pytest.raises(DataError, match=rf"a\.csv, line 4: .*{said}"):
        list(read_chunks(str(tmp_path / "a.csv")))


def test_a_csv_may_hold_commas_and_line_breaks_in_quotes(file: Write, read: Read) -> None:
    path = file("a.csv", 'text,label\n"one, two\nthree",1\nfour,0\n')
    assert read(path) == {"text": ["one, two\nthree", "four"], "label": ["1", "0"]}


def test_the_line_number_of_a_row_is_that_of_its_first_line(file: Write, lines: Lines) -> None:
    path = file("a.csv", 'text,label\n"one\n\ntwo",1\n\nthree,0\n"x\ny",1\nz,1\n')
    assert lines(path) == [2, 6, 7, 9]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_and_blank_lines_make_no_difference(
    file: Write, read: Read, lines: Lines, suffix: str, ending: str
) -> None:
    path = file(f"a{suffix}", ending.join(["a\tb", "1\t2", "", "3\t4", "", ""]))
    assert read(path) == {"a": ["1", "3"], "b": ["2", "4"]}
    assert lines(path) == [2, 4]


def test_a_carriage_return_inside_a_tsv_field_is_kept(file: Write, read: Read) -> None:
    assert read(file("a.tsv", "a\tb\nx\ry\t1\n")) == {"a": ["x\ry"], "b": ["1"]}


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0b", "\x1c"])
def test_unusual_line_separators_inside_a_field_do_not_end_the_row(file: Write, read: Read, separator: str) -> None:
    for name in ("a.tsv", "a.csv"):
        assert read(file(name, f"a\tb\nx{separator}y\t1\n")) == {"a": [f"x{separator}y"], "b": ["1"]}


@pytest.mark.parametrize("suffix", [".CSV", ".Tsv"])
def test_the_case_of_a_suffix_makes_no_difference(file: Write, read: Read, suffix: str) -> None:
    assert read(file(f"a{suffix}", "a\tb\n1\t2\n")) == {"a": ["1"], "b": ["2"]}


def test_a_file_may_end_without_a_newline(file: Write, read: Read) -> None:
    assert read(file("a.tsv", "a\tb\n1\t2")) == {"a": ["1"], "b": ["2"]}


def test_a_short_row_lacks_its_last_fields(file: Write, read: Read) -> None:
    assert read(file("a.csv", "a,b,c\n1\n1,2\n")) == {"a": ["1", "1"], "b": [None, "2"], "c": [None, None]}


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_too_many_fields_are_refused_with_their_line(file: Write, read: Read, name: str) -> None:
    path = file(name, "a\tb\n1\t2\n1\t2\t3\n")
    with pytest.raises(DataError, match=r"line 3: expected 2 fields, found 3\..*quoting") as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", ""), ("a.tsv", ""), ("a.csv", "\n1,2\n"), ("a.tsv", "\t\n1\t2\n")]
)
def test_a_file_without_a_header_is_refused(file: Write, read: Read, name: str, content: str) -> None:
    with pytest.raises(DataError, match="line 1: expected a header"):
        read(file(name, content))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_lines_may_end_with_a_carriage_return_alone(file: Write, read: Read, name: str) -> None:
    assert read(file(name, "a\tb\r1\t2\r3\t4\r")) == {"a": ["1", "3"], "b": ["2", "4"]}


def test_a_decimal_comma_that_tears_a_number_apart_is_named(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match=r'line 2: expected 2 fields, found 3. If 3,5 is a number.*"3,5"'):
        read(file("a.csv", "text,score\na,3,5\n"))


def test_fields_may_be_longer_than_the_sample(file: Write, read: Read) -> None:
    text = "word; " * 50_000
    assert read(file("a.csv", f'text;label\n"{text}";1\n')) == {"text": [text], "label": ["1"]}
