"""Roles: decided where the words around leave no doubt, and left open elsewhere."""

from __future__ import annotations

import pytest

from palbert.bias.roles import role_of
from palbert.bias.words import Sentence


def role(text: str, word: str, *roles: str) -> str | None:
    sentence = Sentence.of(text)
    [number] = [place for place, each in enumerate(sentence.words) if each.text == word]
    return role_of(sentence, number, number, roles)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I saw her.", "object"),
        ("I saw her in town.", "object"),
        ("I told her that it rains.", "object"),
        ("Her plan failed, in her opinion.", "determiner"),
        ("They met her mother.", "determiner"),
        ("We gave her books.", None),
        ("We saw her smile.", None),
    ],
)
def test_her_is_an_object_a_possessive_or_in_doubt(text: str, expected: str | None) -> None:
    assert role(text, "her", "object", "determiner") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("It is his.", "possessive"), ("his and mine", "possessive"), ("his book", "determiner"), ("his then wife", None)],
)
def test_his_is_followed_by_what_is_owned_or_not(text: str, expected: str | None) -> None:
    assert role(text, "his", "determiner", "possessive") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She is Christian.", "adjective"),
        ("She is a Christian.", "noun"),
        ("the Christian who came", "noun"),
        ("a Christian family", "adjective"),
        ("ardently Christian storylines", None),
    ],
)
def test_an_adjective_is_told_from_a_noun(text: str, expected: str | None) -> None:
    assert role(text, "Christian", "adjective", "noun") == expected


def test_other_parts_are_left_open() -> None:
    assert role("a gay man", "gay", "plural", "noun") is None
