"""Decimals: a comma is read as a decimal sign only where it can be nothing else."""

from __future__ import annotations

from typing import Literal

import pytest

from palbert.errors import DataError
from palbert.targets.decimals import Decimals, Spread, as_number, label_key


def read(*labels: str, decimal: Literal[".", ","] | None = None) -> list[str]:
    decimals = Decimals(decimal)
    numbers = [decimals(label) for label in labels]
    decimals.check("a.csv")
    return numbers


def test_plain_numbers_and_words_stay_as_they_are() -> None:
    plain = ["1", "2.5", "-3e4", "1.234", "nan", "word", "a, b"]
    assert read(*plain) == plain


def test_commas_are_decimal_where_all_labels_allow_it_and_one_asks_for_it() -> None:
    assert read("3,5", "4", "-,5", "1,234", "2,5e3") == ["3.5", "4", "-.5", "1.234", "2.5e3"]


@pytest.mark.parametrize("labels", [["3,5", "4.5"], ["4.5", "3,5"], ["1,234", "0.5"]])
def test_both_signs_in_one_file_are_refused_with_the_line_to_write(labels: list[str]) -> None:
    with pytest.raises(DataError, match=r'a.csv: expected labels with one decimal sign.*Write decimal = ","'):
        read(*labels)


def test_a_comma_that_may_separate_thousands_is_refused_with_both_readings() -> None:
    with pytest.raises(DataError, match=r'"1,234" may be 1\.234 or 1234\. Write decimal = "," for 1\.234'):
        read("1,234", "2")
    assert read("1,234", "2", decimal=",") == ["1.234", "2"]
    assert read("1,234", "2", decimal=".") == ["1234", "2"]


def test_a_given_sign_allows_groups_of_thousands() -> None:
    assert read("1,234.5", "12,345,678", decimal=".") == ["1234.5", "12345678"]
    assert read("1.234,5", "12.345.678,0", decimal=",") == ["1234.5", "12345678.0"]


def test_a_given_comma_leaves_numbers_of_workbooks_alone_unless_they_may_be_groups() -> None:
    assert read("3.5", "2", decimal=",") == ["3.5", "2"]
    with pytest.raises(ValueError, match="a number with a decimal comma"):
        read("1.234", decimal=",")


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1.0), (" 2.5", 2.5), ("1e3", 1000.0), ("1_000", None), ("nan", None)]
)
def test_a_number_is_what_files_write_as_one(text: str, number: float | None) -> None:
    assert as_number(text) == number


def test_equal_numbers_have_one_key() -> None:
    assert {label_key(text) for text in ("1", "1.0", "1.00")} == {"1"}
    assert label_key("1_0") == "1_0"


@pytest.mark.parametrize(
    "text", ["1_0", "\uff11", "\u0661", "inf", "Infinity", "nan", "1e999", "0x10", "", ".", "1.5.2", "--1"]
)
def test_what_only_python_takes_for_a_number_is_none(text: str) -> None:
    assert as_number(text) is None


def spread(labels: list[float]) -> Spread:
    found = Spread()
    for label in labels:
        found.add(label)
    return found


@pytest.mark.parametrize("labels", [[1700000001.0, 1700000002.0], [1e-50, 2e-50]])
def test_labels_that_float32_cannot_tell_apart_are_refused(labels: list[float]) -> None:
    with pytest.raises(DataError, match=r"a\.csv: the labels from .* are too close to each other for float32"):
        spread(labels).check("a.csv")


@pytest.mark.parametrize(
    "labels", [[0.1, 0.2, 1 / 3], [1600000001.0, 1700000002.0], [1700000001.0], [1700000001.0, 1700000001.0], []]
)
def test_labels_that_float32_moves_a_little_are_kept(labels: list[float]) -> None:
    spread(labels).check("a.csv")
