"""Word marks: the words of a text with the strength of their colour, and the text between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ScoredWords = Sequence[tuple[int, int, float]]
"""Where each word of a text begins and ends, in order, and its score."""


@dataclass(frozen=True)
class WordMark:
    """A piece of a text."""

    text: str
    score: float | None = None
    """None for what lies between words."""
    strength: float = 0.0
    """The score as a share of the strongest one of the row, from −1 to 1."""


def mark_words(text: str, words: ScoredWords, *, strongest: float) -> list[WordMark]:
    """Cut a text into words and what lies between them; joined again, they are the text.

    Args:
        text: The text, or its beginning: words behind its end are left out.
        words: The words of the whole text.
        strongest: The size of the score that gets the strongest colour.
    """
    pieces, done = [], 0
    for start, end, score in words:
        if end > len(text):
            break
        if start > done:
            pieces.append(WordMark(text[done:start]))
        pieces.append(WordMark(text[start:end], score, score / strongest if strongest > 0 else 0.0))
        done = end
    if done < len(text):
        pieces.append(WordMark(text[done:]))
    return pieces


def mark_row(texts: Sequence[str], words: Sequence[ScoredWords]) -> list[list[WordMark]]:
    """Cut the texts of a row, with one scale of colours for all of them."""
    strongest = max((abs(score) for column in words for *_, score in column), default=0.0)
    return [mark_words(text, column, strongest=strongest) for text, column in zip(texts, words, strict=True)]
