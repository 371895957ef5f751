"""Swapper: rewrite texts about one group for another, or leave them alone where that is not safe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from palbert.bias.lexicon import Axis, Lexicon, Words
from palbert.bias.roles import CLOSED, role_of
from palbert.bias.words import Sentence, article, in_case, words_of

Row = tuple[str, ...]
"""The one or two texts of a row."""


@dataclass(frozen=True)
class Swap:
    """A row rewritten for another group."""

    axis: str
    source: str
    """The group that the row names."""
    target: str
    """The group that the rewritten row names."""
    texts: Row
    """The rewritten row."""


@dataclass(frozen=True)
class _Candidate:
    words: Words
    group: str
    form: tuple[str, ...]
    """The words of the form, as the lexicon has them."""


@dataclass(frozen=True)
class _Mention:
    """Where a text names a group."""

    first: int
    last: int
    candidates: tuple[_Candidate, ...]
    obstacle: str | None = None
    """Why it cannot be replaced safely."""

    @property
    def group(self) -> str:
        return self.candidates[0].group


class Swapper:
    """Finds who a row is about, axis by axis, and rewrites it for each other group.

    A row is left out where a word's part is in doubt, where it names several groups of the axis, or where the rest of
    it would contradict the other group; `left_out` counts these rows by axis and reason.
    """

    def __init__(self, lexicon: Lexicon, *, axes: Sequence[str] | None = None) -> None:
        chosen = lexicon.axes if axes is None else {name: lexicon.axes[name] for name in axes}
        names = lexicon.axes.get("names")
        known = {form for each in (names.words if names else ()) for form in each.forms.values()}
        self.finders = {name: _Finder(axis, known) for name, axis in chosen.items()}
        self.left_out: Counter[tuple[str, str]] = Counter()

    def swaps(self, row: Row) -> list[Swap]:
        """Return the row rewritten for every other group of every axis on which it names one group."""
        sentences = [Sentence.of(text) for text in row]
        return [swap for finder in self.finders.values() for swap in self._of_axis(finder, sentences)]

    def groups(self, row: Row) -> dict[str, set[str]]:
        """Return which groups a row names, by axis, whether they could be exchanged or not."""
        sentences = [Sentence.of(text) for text in row]
        found = {
            name: {mention.group for sentence in sentences for mention in finder.mentions(sentence)}
            for name, finder in self.finders.items()
        }
        return {name: groups for name, groups in found.items() if groups}

    def _of_axis(self, finder: _Finder, sentences: Sequence[Sentence]) -> Iterator[Swap]:
        mentions = [list(finder.mentions(sentence)) for sentence in sentences]
        groups = {mention.group for each in mentions for mention in each}
        if not groups:
            return
        reason = finder.obstacle(sentences, mentions)
        if reason:
            self.left_out[finder.axis.name, reason] += 1
            return
        [source] = groups
        for target in finder.axis.groups:
            if target == source:
                continue
            texts = [finder.rewrite(sentence, own, target) for sentence, own in zip(sentences, mentions, strict=True)]
            if any(text is None for text in texts):
                self.left_out[finder.axis.name, "no safe word for the other group"] += 1
            else:
                yield Swap(finder.axis.name, source, target, tuple(text for text in texts if text is not None))


class _Finder:
    """Finds the words of one axis.

    Args:
        axis: The axis.
        names: First names, for an axis that leaves texts with names out.
    """

    def __init__(self, axis: Axis, names: set[str]) -> None:
        self.axis = axis
        self.names = names if axis.no_names else set()
        self.by_first: dict[str, list[_Candidate]] = {}
        for words in axis.words:
            for group, form in words.forms.items():
                parts = tuple(word.text for word in words_of(form))
                self.by_first.setdefault(parts[0].lower(), []).append(_Candidate(words, group, parts))
        self.keep = _phrases(axis.keep)
        self.unless = _phrases(axis.unless)

    def mentions(self, sentence: Sentence) -> Iterator[_Mention]:
        """Yield where the text names a group, from left to right."""
        number = 0
        while number < len(sentence.words):
            first = sentence.words[number].lower
            kept = _longest(self.keep.get(first, ()), sentence, number, exact=False) if first in self.keep else 0
            mention = None if kept or first not in self.by_first else self._mention(sentence, number)
            if mention:
                yield mention
                number = mention.last + 1
            else:
                number += max(kept, 1)

    def _mention(self, sentence: Sentence, number: int) -> _Mention | None:
        fitting = [each for each in self.by_first[sentence.words[number].lower] if _fits(each, sentence, number)]
        if not fitting:
            return None
        longest = max(len(each.form) for each in fitting)
        chosen = tuple(each for each in fitting if len(each.form) == longest)
        last = number + longest - 1
        return _Mention(number, last, chosen, _obstacle(chosen[0], sentence, number, last))

    def obstacle(self, sentences: Sequence[Sentence], mentions: Sequence[Sequence[_Mention]]) -> str | None:
        """Return why a row is left out; None if it can be rewritten."""
        found = [mention for each in mentions for mention in each]
        if len({mention.group for mention in found}) > 1:
            return "names several groups"
        for mention in found:
            if mention.obstacle:
                return mention.obstacle
        for sentence in sentences:
            if any(
                _longest(self.unless.get(word.lower, ()), sentence, n, exact=True)
                for n, word in enumerate(sentence.words)
            ):
                return "a word that belongs to one group"
            if self.axis.no_names and self._has_name(sentence, mentions):
                return "a name"
        return None

    def _has_name(self, sentence: Sentence, mentions: Sequence[Sequence[_Mention]]) -> bool:
        """Whether a text has a known first name, a full name, or next to a pronoun anything that may be a name."""
        if any(word.text in self.names for word in sentence.words):
            return True
        capitalised = [
            word.is_capitalised and word.lower not in CLOSED and word.lower not in self.by_first
            for word in sentence.words
        ]
        pronouns = any(each.words.role for own in mentions for mention in own for each in mention.candidates)
        if pronouns and any(is_name and not sentence.begins(n) for n, is_name in enumerate(capitalised)):
            return True
        return any(
            capitalised[number] and capitalised[number - 1] and not sentence.gap(number).strip(" .")
            for number in range(1, len(capitalised))
        )

    def rewrite(self, sentence: Sentence, mentions: Sequence[_Mention], target: str) -> str | None:
        """Return the text for another group; None where a word has no counterpart, or its part is in doubt."""
        pieces, end = [], 0
        for mention in mentions:
            form = _counterpart(mention, sentence, target)
            if form is None:
                return None
            word, before = sentence.words[mention.first], sentence.previous_word(mention.first)
            start = word.start
            if before and before.lower in ("a", "an") and before.start >= end:
                own = in_case(article(form), before.text, begins=True, is_upper=sentence.is_upper)
                pieces += [sentence.text[end : before.start], own, sentence.text[before.end : start]]
            else:
                pieces.append(sentence.text[end:start])
            if word.text.islower() and not mention.candidates[0].form[0].islower():
                form = form.lower()  # a text that writes names of groups in small letters
            begins = sentence.begins(mention.first)
            pieces.append(in_case(form, word.text, begins=begins, is_upper=sentence.is_upper))
            end = sentence.words[mention.last].end
        return "".join([*pieces, sentence.text[end:]])


def _phrases(phrases: Sequence[str]) -> Mapping[str, list[tuple[str, ...]]]:
    """Return phrases as words, by the first of them."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for phrase in phrases:
        parts = tuple(word.text for word in words_of(phrase))
        if parts:
            found.setdefault(parts[0].lower(), []).append(parts)
    return found


def _matches(form: tuple[str, ...], sentence: Sentence, number: int, *, exact: bool) -> bool:
    """Whether some words of the text are those of the lexicon: in any case, or with capitals where it has them."""
    words = sentence.words[number : number + len(form)]
    return len(words) == len(form) and all(
        part.lower() == word.lower and (not exact or part.islower() or part == word.text or sentence.is_upper)
        for part, word in zip(form, words, strict=True)
    )


def _longest(phrases: Sequence[tuple[str, ...]], sentence: Sentence, number: int, *, exact: bool) -> int:
    """Return how many words the longest phrase has that begins at a word; 0 if none does."""
    return max((len(each) for each in phrases if _matches(each, sentence, number, exact=exact)), default=0)


def _fits(candidate: _Candidate, sentence: Sentence, number: int) -> bool:
    """Whether the words are there, and before one that they must stand before."""
    if not _matches(candidate.form, sentence, number, exact=candidate.words.role == "name"):
        return False
    following = sentence.next_word(number + len(candidate.form) - 1)
    return not candidate.words.before or (following is not None and following.lower in candidate.words.before)


def _obstacle(candidate: _Candidate, sentence: Sentence, number: int, last: int) -> str | None:
    """Return why words that name a group may be part of something else."""
    first = sentence.words[number]
    if sentence.is_upper or not first.text[0].isupper():
        return None
    if candidate.form[0][0].islower():
        return None if sentence.begins(number) else "in capitals, as in a title"
    if candidate.words.before:
        return None  # before a word for people, whose capital is found by another axis
    before, after = sentence.previous_word(number), sentence.next_word(last)
    is_part = (after is not None and after.is_capitalised) or (
        before is not None and before.is_capitalised and before.lower not in CLOSED
    )
    return "part of a longer name" if is_part else None


def _counterpart(mention: _Mention, sentence: Sentence, target: str) -> str | None:
    """Return what takes the place of a mention for another group; None where that is in doubt."""
    forms: dict[str, str] = {}
    for each in mention.candidates:
        if target in each.words.forms:
            forms.setdefault(each.words.role, each.words.forms[target])
    roles = {each.words.role for each in mention.candidates}
    if len(roles) > 1 and (len(set(forms.values())) > 1 or len(forms) < len(roles)):
        role = role_of(sentence, mention.first, mention.last, roles)
        return None if role is None else forms.get(role)
    return next(iter(forms.values()), None)
