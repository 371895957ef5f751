"""Sources: short forms of files and sets, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from palbert.readers import Dialect
from palbert.tasks.sources import ExtraSet, Source, with_lists


def test_a_bare_path_is_a_file_with_the_settings_of_its_task() -> None:
    source = Source.model_validate("a.csv")
    assert source == Source(path="a.csv")
    assert {name for name, value in source if value is not None} == {"path"}


def test_one_text_column_is_a_list_of_one() -> None:
    assert Source.model_validate({"path": "a.csv", "text": "words"}).text == ("words",)
    assert ExtraSet.model_validate({"train": "a.csv", "text": "words"}).text == ("words",)


def test_an_extra_set_may_name_one_file() -> None:
    assert ExtraSet.model_validate({"train": "a.csv"}) == ExtraSet.model_validate({"train": [{"path": "a.csv"}]})


@pytest.mark.parametrize(
    "values",
    [
        {"path": "a.csv", "texts": "a"},
        {"path": "a.csv", "labels": "4"},
        {"path": "a.csv", "quoting": "yes"},
        {"path": "a.csv", "separator": "||"},
        {"path": "a.csv", "encoding": "utf-9"},
        {"path": "a.csv", "header": "text"},
        {"path": "a.csv", "header": ["text", "text"]},
        {"path": "a.csv", "decimal": ";"},
        {},
    ],
)
def test_a_wrong_setting_of_a_file_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Source.model_validate(values)


@pytest.mark.parametrize("factor", ["x4", "× 4", "*4", "x2.5"])
def test_a_factor_is_a_number_behind_a_sign(factor: str) -> None:
    assert Source.model_validate({"path": "a.csv", "labels": factor}).labels == factor


@pytest.mark.parametrize(
    "values", [{"train": []}, {"train": "a.csv", "factor": -1}, {"train": "a.csv", "form": "pairs"}]
)
def test_a_wrong_setting_of_a_set_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ExtraSet.model_validate(values)


def test_values_that_are_not_tables_are_left_to_validation() -> None:
    assert with_lists(3, "train") == 3
    given = {"train": "a.csv", "dev": ["b.csv"]}
    assert with_lists(given, "train", "dev") == {"train": ["a.csv"], "dev": ["b.csv"]}
    assert given["train"] == "a.csv"  # the caller's values are unchanged


def test_what_a_file_says_of_its_rows_goes_before_what_its_task_says() -> None:
    general = Dialect(quoting="on", separator=";", header=False)
    source = Source.model_validate({"path": "a.csv", "separator": "tab", "header": ["text", "label"]})
    assert source.dialect_over(general) == Dialect(quoting="on", separator="\t", header=("text", "label"))
    assert Source(path="a.csv", header=True).dialect_over(general).header is True
    assert Source(path="a.csv", separator="").dialect_over(general).separator == ""
