"""Treebanks with a grade at every node, such as SST: each phrase becomes a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from palbert.errors import DataError

TOKEN = re.compile(r"\(\s*\d+|[()]|[^\s()]+")
"""A bracket with its grade, a bracket, or a word."""
ESCAPES = {"-LRB-": "(", "-RRB-": ")", r"\/": "/", r"\*": "*"}
"""How treebanks escape their own markup."""


class Phrase(NamedTuple):
    """A phrase with its grade."""

    text: str
    grade: str
    whole: bool
    """Whether it is a whole sentence."""


def phrases(lines: Iterable[str], *, name: str = "trees") -> Iterator[Phrase]:
    """Yield each phrase of trees such as `(3 (2 Quite) (4 good))`, one tree per line; no text is repeated."""
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        for phrase in _of_tree(line, f"{name}, line {number}") if line.strip() else ():
            if phrase.text not in seen:
                seen.add(phrase.text)
                yield phrase


def _of_tree(line: str, place: str) -> list[Phrase]:
    """Return the phrases of one tree, the whole sentence first."""
    found: list[Phrase] = []
    opened: list[tuple[str, int]] = []  # the grade of each open bracket, and the number of words before it
    words: list[str] = []
    for token in TOKEN.findall(line):
        if len(token) > 1 and token[0] == "(" and (opened or not words):
            opened.append((token[1:].strip(), len(words)))
        elif token == ")" and opened and len(words) > opened[-1][1]:
            grade, start = opened.pop()
            found.append(Phrase(" ".join(words[start:]), grade, whole=not opened))
        elif token[0] not in "()" and opened:
            words.append(_unescaped(token))
        else:
            raise DataError(f"{place}: expected a tree such as (3 (2 Quite) (4 good)), found an unexpected '{token}'.")
    if opened or not found:
        raise DataError(f"{place}: a bracket is not closed.")
    return found[::-1]


def _unescaped(word: str) -> str:
    for escape, mark in ESCAPES.items():
        word = word.replace(escape, mark)
    return word
