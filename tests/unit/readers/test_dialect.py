"""Dialects: what is given counts, what is left open depends on the file."""

from __future__ import annotations

import pytest

from palbert.readers import Dialect, Quoting, check_encoding, check_header, check_separator


@pytest.mark.parametrize(("quoting", "csv", "tsv"), [("auto", True, False), ("on", True, True), ("off", False, False)])
def test_quotes_depend_on_the_suffix_unless_given(quoting: Quoting, csv: bool, tsv: bool) -> None:
    dialect = Dialect(quoting=quoting)
    assert (dialect.quoted(".csv"), dialect.quoted(".tsv")) == (csv, tsv)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ":", " ", "", "^"])
def test_a_separator_is_one_sign_or_none(separator: str) -> None:
    assert check_separator(separator) == separator


def test_a_tab_may_be_written_in_three_ways() -> None:
    assert {check_separator(tab) for tab in ("\t", r"\t", "tab")} == {"\t"}


@pytest.mark.parametrize("separator", ["||", "a", "1", '"', "\n", 1, None])
def test_what_cannot_separate_fields_is_refused(separator: object) -> None:
    with pytest.raises(ValueError, match="expected a sign"):
        check_separator(separator)


@pytest.mark.parametrize("encoding", ["utf-8", "UTF_16", "windows-1252", "latin1", "shift_jis", "gb18030"])
def test_text_encodings_are_accepted(encoding: str) -> None:
    assert check_encoding(encoding) == encoding


@pytest.mark.parametrize("encoding", ["utf-9", "", "base64", "rot13", "zlib", "idna", "unicode_escape", "a\0b", 8])
def test_what_is_not_an_encoding_of_text_is_refused(encoding: object) -> None:
    with pytest.raises(ValueError, match="expected an encoding such as"):
        check_encoding(encoding)


def test_a_header_is_yes_no_or_names() -> None:
    assert [check_header(header) for header in (True, False, ["a", "b"], ("a",))] == [True, False, ("a", "b"), ("a",)]


@pytest.mark.parametrize("header", [[], ["a", "a"], ["a", " "], [1, 2], "text", 1])
def test_a_header_without_a_name_for_each_column_is_refused(header: object) -> None:
    with pytest.raises(ValueError, match="expected true, false or a different name"):
        check_header(header)
