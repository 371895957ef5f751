"""JSON values: what Python would read wrongly, or not at all, is an error with its place."""

from __future__ import annotations

import json

import pytest

from palbert.errors import DataError
from palbert.readers.json_values import check_unicode, read_value


def test_a_value_is_returned_with_its_end() -> None:
    assert read_value(' {"a": [1, 2.5]} rest', 1, place="x") == ({"a": [1, 2.5]}, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a", "text": "b"}', "x: an object has two values for 'text'"),
        ('{"row": [{"k": 1, "k": 2}]}', "x: an object has two values for 'k'"),
        ("[" * 200_000, "x: the values are nested too deeply"),
        ('{"n": ' + "9" * 5000 + "}", "x: a whole number has too many digits"),
    ],
)
def test_what_python_would_read_wrongly_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_value(text, 0, place="x")


def test_broken_json_is_left_to_the_caller() -> None:
    with pytest.raises(json.JSONDecodeError):
        read_value("{", 0, place="x")


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(DataError, match="x: expected valid Unicode"):
        check_unicode("x", {"a": ["\ud800"]})
