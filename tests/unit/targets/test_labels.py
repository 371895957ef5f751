"""Labels: names, indices, numbers, mappings and factors, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.errors import DataError
from palbert.targets.binary import Binary
from palbert.targets.classes import Classes
from palbert.targets.labels import LabelReader, unknown_label
from palbert.targets.number import Number

CLASSES = ("bad", "so so", "good")


@pytest.mark.parametrize(
    ("raw", "label"),
    [("bad", 0), ("good", 2), ("so so", 1), (" good ", 2), ("0", 0), ("2", 2), ("1.0", 1), (" 1.00", 1)],
)
def test_a_class_is_given_by_name_or_index(raw: str, label: int) -> None:
    found = LabelReader(Classes(classes=CLASSES))(raw)
    assert (found, type(found)) == (label, int)


@pytest.mark.parametrize("raw", ["3", "-1", "1.5", "GOOD", "", "nan", "inf", "1e9"])
def test_a_label_that_is_neither_name_nor_index_is_refused_with_both(raw: str) -> None:
    with pytest.raises(ValueError, match="a label from 0 to 2 or one of bad, so so, good"):
        LabelReader(Classes(classes=CLASSES))(raw)


@pytest.mark.parametrize("raw", ["1", "1.0", "1.00"])
def test_where_class_names_are_numbers_a_number_is_a_name(raw: str) -> None:
    assert LabelReader(Classes(classes=("1", "2", "3")))(raw) == 0


def test_where_class_names_are_numbers_there_are_no_indices() -> None:
    with pytest.raises(ValueError, match="one of 1, 2, 3"):
        LabelReader(Classes(classes=("1", "2", "3")))("0")


@pytest.mark.parametrize(("raw", "label"), [("0", 0.0), ("5", 5.0), ("2.75", 2.75), ("1e0", 1.0), (" 3 ", 3.0)])
def test_a_number_in_the_range_is_taken(raw: str, label: float) -> None:
    assert LabelReader(Number(range=(0, 5)))(raw) == label


@pytest.mark.parametrize("raw", ["5.01", "-0.1", "five", "", "nan", "inf"])
def test_a_number_outside_the_range_is_refused_with_the_range(raw: str) -> None:
    with pytest.raises(ValueError, match="a number from 0 to 5"):
        LabelReader(Number(range=(0, 5)))(raw)


def test_a_number_without_a_range_may_be_any_finite_one() -> None:
    reader = LabelReader(Number())
    assert [reader("-1e6"), reader("7")] == [-1e6, 7.0]
    with pytest.raises(ValueError, match="a number"):
        reader("inf")


@pytest.mark.parametrize(
    ("raw", "label"),
    [("entailment", 1), ("contradiction", 0), ("neutral", None), ("2", 0), ("2.0", 0), (" neutral ", None)],
)
def test_a_mapping_gives_the_label_or_drops_the_row(raw: str, label: int | None) -> None:
    labels: dict[str, int | str] = {"entailment": 1, "contradiction": "no", "neutral": "drop", "2": 0}
    assert LabelReader(Binary(classes=("no", "yes")), labels=labels)(raw) == label


def test_a_mapping_holds_all_labels() -> None:
    with pytest.raises(ValueError, match="one of a, b"):
        LabelReader(Binary(classes=("no", "yes")), labels={"a": 1, "b": 0})("1")


def test_a_mapping_distinguishes_large_numbers() -> None:
    reader = LabelReader(Binary(classes=("no", "yes")), labels={"12345678": 1, "12345679": 0})
    assert [reader("12345678"), reader("12345679")] == [1, 0]


def test_a_mapping_to_numbers_is_checked_against_the_range() -> None:
    reader = LabelReader(Number(range=(0, 1)), labels={"yes": 0.5, "no": 2})
    assert reader("yes") == 0.5
    with pytest.raises(ValueError, match="a number from 0 to 1"):
        reader("no")


@pytest.mark.parametrize("factor", ["x4", "×4", "*4", "x 4", "× 4.0"])
@pytest.mark.parametrize(("raw", "label"), [("0", 0), ("1", 4), ("1.0", 4)])
def test_a_factor_multiplies_the_raw_number(factor: str, raw: str, label: int) -> None:
    # CFIMDB's two grades as the lowest and the highest of SST's five.
    assert LabelReader(Classes(classes=("a", "b", "c", "d", "e")), labels=factor)(raw) == label


def test_a_product_that_is_not_a_class_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 4"):
        LabelReader(Classes(classes=("a", "b", "c", "d", "e")), labels="x4")("2")


def test_a_refusal_is_not_remembered_as_a_label() -> None:
    reader = LabelReader(Classes(classes=CLASSES))
    for _ in range(2):
        with pytest.raises(ValueError, match="from 0 to 2"):
            reader("9")


def test_the_error_names_file_line_and_value() -> None:
    error: Any = unknown_label("a/b.tsv", 41, ValueError("a label from 0 to 4"), "5")
    assert error.message == 'a/b.tsv, line 41: expected a label from 0 to 4, found "5".'
    assert "drop" in error.hint


def test_the_error_has_the_lines_of_both_remedies() -> None:
    target = Classes(classes=CLASSES)
    error: Any = unknown_label("b.tsv", 4, ValueError("…"), 'ok "', target=target, place="tasks.own.")
    names = ", ".join(f'"{name}"' for name in CLASSES)
    assert f'tasks.own.classes = [{names}, "ok \\""]' in error.hint
    assert f'tasks.own.labels = {{ "ok \\"" = "{CLASSES[0]}" }}' in error.hint


def test_a_class_named_like_the_word_that_drops_rows_is_a_class() -> None:
    assert LabelReader(Classes(classes=("keep", "drop")))("drop") == 1


def test_labels_of_a_file_that_float32_would_change_are_refused_with_the_file() -> None:
    reader = LabelReader(Number())
    assert [reader("1700000001"), reader("1700000002")] == [1700000001.0, 1700000002.0]
    with pytest.raises(DataError, match=r"a\.csv: the labels"):
        reader.check("a.csv")
