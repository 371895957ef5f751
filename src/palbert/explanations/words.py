"""Words: the words of a text in any language, and which tokens each of them has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from tokenizers import Regex, pre_tokenizers

Span = tuple[int, int]
"""Where something begins and ends in a text, in characters."""


def words_of(text: str, tokens: Sequence[Span]) -> tuple[list[Span], list[int]]:
    """Return the words of a text in order, and the word that each token belongs to.

    Words are those of Unicode's rules for all languages (UAX #29): punctuation marks are words of their own. Words that
    share a token are one, such as all letters of a token of Chinese or Thai. Words without a token are left out: they
    were cut off, or the tokenizer ignores them.

    Args:
        text: The text.
        tokens: Where each token begins and ends in it; a token may be empty, or share letters with the next one.
    """
    trimmed = [_without_spaces(text, span) for span in tokens]
    spans = _joined([*_unicode_words(text), *(span for span in trimmed if span[0] < span[1])])
    owners = [_owner(spans, token) for token in trimmed]
    if None in owners:  # no word at all, such as an empty token of an empty text
        spans, owners = [(0, len(text))], [0] * len(trimmed)
    kept = {old: new for new, old in enumerate(sorted({owner for owner in owners if owner is not None}))}
    return [spans[old] for old in kept], [kept[owner] for owner in owners if owner is not None]


def _unicode_words(text: str) -> list[Span]:
    pieces: list[tuple[str, Span]] = _splitter().pre_tokenize_str(text)
    return [span for piece, span in pieces if not piece.isspace()]


@cache
def _splitter() -> pre_tokenizers.PreTokenizer:
    r"""Return what splits a text into words: \X matches one, in the mode "words" of Oniguruma."""
    return pre_tokenizers.Split(Regex(r"(?y{w})\X"), "isolated")


def _without_spaces(text: str, span: Span) -> Span:
    """Leave out the spaces around a token, which byte-level tokenizers count to it; not those that are all of it."""
    start, stop = span
    piece = text[start:stop]
    if not piece.strip():
        return span
    return stop - len(piece.lstrip()), start + len(piece.rstrip())


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Join spans that share a character."""
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _owner(spans: Sequence[Span], token: Span) -> int | None:
    """Return the word that a token lies in; for an empty token between words the next one, or the last one."""
    from bisect import bisect_right

    if not spans:
        return None
    place = bisect_right(spans, token[0], key=lambda span: span[1])  # the first word that ends behind the token's start
    return min(place, len(spans) - 1)
