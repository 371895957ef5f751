"""Spreadsheet cells: no formula is left, numbers stay, and every text can be restored."""

from __future__ import annotations

import itertools

import pytest

from palbert.runtime.spreadsheet import original_cell, safe_cell, text_of_workbook_cell, workbook_cell

FORMULAS = [
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\u00a0=1", "'=1", '"=1', "\n=1", "＝1", "-", "=",
    "+49 30 1234", "- a list", "-1_0", "-٣", "--1", "\t1", "' \"@x",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_may_become_a_formula_begins_with_an_apostrophe(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["", "a=b", "a\t=1", "-1", "+2.5", "-1e-3", "-.5", "0", "it's", "'quoted'", '"x"', "1+1"]
)
def test_numbers_and_other_texts_stay(text: str) -> None:
    assert safe_cell(text) == text


def test_every_text_can_be_restored_and_no_two_become_one() -> None:
    texts = ["".join(signs) for length in range(6) for signs in itertools.product("'\"= 1-a", repeat=length)]
    cells = [safe_cell(text) for text in texts]
    assert [original_cell(cell) for cell in cells] == texts
    assert len(set(cells)) == len(texts)
    assert not any(cell.lstrip(' "')[:1] in ("=", "-") and not cell.lstrip("-").isdigit() for cell in cells)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a\r\nb", "a_x000D_\nb"),
        ("_x000D_", "_x005F_x000D_"),
        ("_x0041_x0042_", "_x005F_x0041_x005F_x0042_"),
        ("_x005F_x000D_", "_x005F_x005F_x005F_x000D_"),
        ("_x41_ x0041_ _xyz_", "_x41_ x0041_ _xyz_"),
    ],
)
def test_a_workbook_names_returns_by_number_and_takes_nothing_else_for_a_name(text: str, cell: str) -> None:
    assert workbook_cell(text) == cell
    assert text_of_workbook_cell(cell) == text


def test_every_text_of_a_workbook_can_be_restored() -> None:
    parts = ["_", "x000D_", "x005F_", "x0041_", "\r", "x"]
    for length in range(6):
        for chosen in itertools.product(parts, repeat=length):
            assert text_of_workbook_cell(workbook_cell("".join(chosen))) == "".join(chosen)
