"""Words of a text: where they are, how they are capitalised, and which article stands before them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
"""Letters and digits; words joined by a hyphen are one, so that nothing is found in "Chinese-American"."""
VOWEL_SOUND = re.compile(r"(?!eu|uni|use|one\b|once\b)[aeiou]|heir|hour|honest|honou?r", re.IGNORECASE)


class Word(NamedTuple):
    """A word and its place in the text."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """In small letters."""
        return self.text.lower()

    @property
    def is_capitalised(self) -> bool:
        """Whether the first letter, and not all of them, is a capital."""
        return self.text[0].isupper() and (len(self.text) == 1 or not self.text.isupper())


def words_of(text: str) -> list[Word]:
    """Return the words of a text in order."""
    return [Word(found[0], *found.span()) for found in WORD.finditer(text)]


@dataclass(frozen=True)
class Sentence:
    """A text and its words."""

    text: str
    words: list[Word]

    @classmethod
    def of(cls, text: str) -> Sentence:
        """Find the words of a text."""
        return cls(text, words_of(text))

    @property
    def is_upper(self) -> bool:
        """Whether the whole text is in capitals."""
        return len(self.words) > 1 and self.text.isupper()

    def gap(self, number: int) -> str:
        """Return what stands before a word: the text since the previous one."""
        if number >= len(self.words):
            return self.text[self.words[-1].end :] if self.words else self.text
        return self.text[self.words[number - 1].end if number else 0 : self.words[number].start]

    def begins(self, number: int) -> bool:
        """Whether a word may be capitalised only because it begins a sentence."""
        return number == 0 or bool(set(self.gap(number)) - set(" \t,'’"))

    def next_word(self, number: int) -> Word | None:
        """Return the word behind a place, if only space is between."""
        there = number + 1 < len(self.words) and not self.gap(number + 1).strip()
        return self.words[number + 1] if there else None

    def previous_word(self, number: int) -> Word | None:
        """Return the word before a place, if only space is between."""
        return self.words[number - 1] if number and not self.gap(number).strip() else None


def article(following: str) -> str:
    """Return "a" or "an", by the sound that a word begins with."""
    return "an" if VOWEL_SOUND.match(following) else "a"


def in_case(form: str, like: str, *, begins: bool, is_upper: bool) -> str:
    """Return a word of the lexicon capitalised as the word that it replaces.

    Args:
        form: As the lexicon has it.
        like: The word in the text.
        begins: Whether it begins a sentence.
        is_upper: Whether the whole text is in capitals.
    """
    if is_upper:
        return form.upper()
    return form[0].upper() + form[1:] if begins and like[0].isupper() else form
