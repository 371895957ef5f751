"""Columns: what looks like a text, and what like a label."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.columns import Columns, guess_label, guess_text


def columns(**cells: list[Any]) -> Columns:
    return Columns("rows.csv", cells)


TEXTS = [f"Sentence number {number}" for number in range(10)]


@pytest.mark.parametrize(
    ("cells", "text", "label"),
    [
        (TEXTS, True, False),
        (["a", "b"] * 5, False, True),
        (["very good", "very bad"] * 5, False, True),
        ([str(number) for number in range(10)], False, False),
        ([f"{number / 4}" for number in range(10)], False, True),
        ([["a"], [], ["b"]], False, True),
        ([f"u{number}" for number in range(10)], False, False),
        (["same"] * 10, False, False),
        (["2024-01-31", "2024-02-01"] * 5, False, False),
        ([None, "", None], False, False),
        ([f"longwordwithoutspaces{number:010}" for number in range(10)], True, False),
    ],
)
def test_texts_and_labels_are_told_apart(cells: list[Any], text: bool, label: bool) -> None:
    found = columns(a=cells)
    assert (found.is_text("a"), found.is_label("a")) == (text, label)


def test_the_only_other_column_is_taken_even_if_it_looks_unlike_a_label() -> None:
    found = columns(text=TEXTS, code=[f"u{number}" for number in range(10)])
    assert guess_label(found, ["code"], text_open=False, place="tasks.own") == "code"


def test_a_pair_is_taken_by_its_names_or_if_a_pair_is_asked_for() -> None:
    known, unknown = columns(Premise=TEXTS, Hypothesis=TEXTS), columns(title=TEXTS, body=TEXTS)
    assert guess_text(known, list(known.cells), kind=None, place="tasks.own") == ["Premise", "Hypothesis"]
    assert guess_text(unknown, list(unknown.cells), kind="pair", place="tasks.own") == ["title", "body"]
    with pytest.raises(RecipeError, match=r"several columns of rows.csv could be the text: 'title', 'body'"):
        guess_text(unknown, list(unknown.cells), kind=None, place="tasks.own")
    with pytest.raises(RecipeError, match="several columns"):
        guess_text(known, list(known.cells), kind="single", place="tasks.own")


def test_a_label_is_not_guessed_where_another_column_could_be_one() -> None:
    texts = [f"a film of the year number {number}" for number in range(6)]
    prices = [12, 99, 45, 31, 77, 20]
    made = columns(review=texts, price=prices, city=["Rome", "Oslo"] * 3)
    with pytest.raises(RecipeError, match=r"several columns of .* could be the label: 'price', 'city'"):
        guess_label(made, list(made.cells), text_open=True, place="tasks.own")
    named = columns(review=texts, price=prices, label=["Rome", "Oslo"] * 3)
    assert guess_label(named, list(named.cells), text_open=True, place="tasks.own") == "label"


@pytest.mark.parametrize("key", [[1, 2, 3, 4], ["2024-01-02", "2023-05-06", "2024-01-02", "2022-01-01"]])
def test_numbered_rows_and_dates_are_no_labels(key: list[Any]) -> None:
    made = columns(when=key, review=[f"a film number {n} of many" for n in range(4)], mood=["a", "b"] * 2)
    assert guess_label(made, list(made.cells), text_open=True, place="tasks.own") == "mood"
