"""Roles: which part a word plays in its sentence, where the words around it leave no doubt."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from palbert.bias.words import Sentence

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_GRAMMAR = tomllib.loads((Path(__file__).parent / "grammar.toml").read_text("utf-8"))
WORDS = {name: frozenset(words.split()) for name, words in _GRAMMAR.items()}
"""Lists of words by name, as grammar.toml has them."""
COPULAS, DETERMINERS, PREPOSITIONS = WORDS["copulas"], WORDS["determiners"], WORDS["prepositions"]
AUXILIARIES = COPULAS | WORDS["auxiliaries"]
CLOSED = DETERMINERS | PREPOSITIONS | AUXILIARIES | WORDS["conjunctions"] | WORDS["pronouns"] | WORDS["adverbs"]
"""Words of which there are few, and which are no nouns or adjectives that a possessive could stand before."""
AFTER_POSSESSIVE = AUXILIARIES | WORDS["after_possessive"]
OWNED, THINGS = WORDS["owned"], WORDS["things"]


def role_of(sentence: Sentence, number: int, last: int, roles: Collection[str]) -> str | None:
    """Return the part of some words in their sentence, or None where it is in doubt.

    Args:
        sentence: The text.
        number: The first of the words.
        last: The last of them.
        roles: The parts that they may play.
    """
    before, after = sentence.previous_word(number), sentence.next_word(last)
    previous, following = before.lower if before else None, after.lower if after else None
    if set(roles) == {"object", "determiner"}:
        return _her(previous, following, begins=sentence.begins(number))
    if set(roles) == {"determiner", "possessive"}:
        return _his(following)
    if set(roles) == {"adjective", "noun"}:
        return _adjective_or_noun(previous, following)
    return None


def _her(previous: str | None, following: str | None, *, begins: bool) -> str | None:
    """Tell "saw her." from "her book"; "gave her books" may be either."""
    if following in OWNED:
        return "determiner"
    if following is None or following in CLOSED:
        return "object"
    return "determiner" if begins or previous in PREPOSITIONS or previous in COPULAS else None


def _his(following: str | None) -> str | None:
    """Tell "his book" from "a friend of his"."""
    if following is None or following in AFTER_POSSESSIVE:
        return "possessive"
    return None if following in CLOSED else "determiner"


def _adjective_or_noun(previous: str | None, following: str | None) -> str | None:
    """Tell "is Christian" and "a Christian family" from "a Christian"."""
    if following in THINGS:
        return "adjective"
    ends = following is None or following in CLOSED
    if ends and previous in COPULAS:
        return "adjective"
    return "noun" if ends and previous in DETERMINERS else None
