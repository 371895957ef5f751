"""Separators: the sign is found from header and rows, and texts that contain it are not torn apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers.separators import SAMPLE, Sample

Write = Callable[[str, str | bytes], Path]
Read = Callable[..., dict[str, list[str | None]]]


def sample(text: str, suffix: str = ".csv", *, quoted: bool = True) -> Sample:
    return Sample(Path(f"a{suffix}"), text, suffix=suffix, quoted=quoted)


@pytest.mark.parametrize("sign", [",", ";", "|", "\t"])
def test_the_sign_that_header_and_rows_share_is_the_separator(sign: str) -> None:
    assert sample(f"id{sign}text{sign}label\n1{sign}x{sign}2\n2{sign}y{sign}3\n").separator() == sign


@pytest.mark.parametrize("other", [",", "|"])
def test_texts_and_names_with_other_signs_do_not_matter(other: str) -> None:
    text = f'text;score{other} 1 to 5\nwell{other} yes{other} no;1\nno;2\n"a;b;c";3\n'
    assert sample(text).separator() == ";"


@pytest.mark.parametrize(
    "text",
    [
        "text\nwell, yes\nno\na, b, c\n",
        "text\nwell; yes\nno, no\n",
        "text; if any\nwell\nno\nyes; well\n",
    ],
)
def test_a_file_of_one_column_stays_one_column(text: str, file: Write, read: Read) -> None:
    header, *rows = text.splitlines()
    assert read(file("a.csv", text)) == {header: rows}


def test_quoted_texts_of_one_column_lose_their_quotes(file: Write, read: Read) -> None:
    assert read(file("a.csv", 'text\n"well, yes"\nno\n')) == {"text": ["well, yes", "no"]}


def test_rows_that_all_have_more_fields_than_the_header_are_refused(file: Write, read: Read) -> None:
    with pytest.raises(DataError, match=r'line 2: expected 1 field, found 2\. Name every column.*separator = ""'):
        read(file("a.csv", "text\nwell,1\nno,0\n"))


def test_two_signs_that_fit_equally_well_are_refused_with_both_lines_to_write(file: Write, read: Read) -> None:
    path = file("a.csv", "a;b,c\n1;2,3\n4;5,6\n")
    with pytest.raises(DataError, match='Write separator = "," or separator = ";"'):
        read(path)
    assert list(read(path, separator=";")) == ["a", "b,c"]
    assert list(read(path, separator=",")) == ["a;b", "c"]


def test_a_tsv_without_tabs_is_read_by_the_sign_of_all_its_rows(file: Write, read: Read) -> None:
    assert read(file("a.tsv", "text;label\nx;1\n")) == {"text": ["x"], "label": ["1"]}
    assert read(file("b.tsv", "text; or so\nx\n")) == {"text; or so": ["x"]}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_line_that_names_the_separator_is_not_part_of_the_table(file: Write, read: Read, ending: str) -> None:
    assert read(file("a.csv", ending.join(["sep=;", "text;label", "a,b;1"]))) == {"text": ["a,b"], "label": ["1"]}


def test_a_row_that_the_sample_cuts_does_not_count() -> None:
    text = "text;label\n" + "word " * SAMPLE + ";1\n"
    assert sample(text[:SAMPLE]).separator() == ";"


def test_a_given_separator_needs_no_evidence(file: Write, read: Read) -> None:
    assert read(file("a.csv", "a:b\n1:2\n"), separator=":") == {"a": ["1"], "b": ["2"]}
    assert read(file("a.csv", "a,b\n1,2\n"), separator="") == {"a,b": ["1,2"]}
    assert read(file("a.tsv", "a\tb\n1\t2\n"), separator="") == {"a\tb": ["1\t2"]}
