"""Row: one text or pair as the model reads it, any number of times in one packed batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from palbert.batch import PackedBatch
from palbert.data.collate import Portion, collate
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import Template, TextTokenizer
from palbert.explanations.words import words_of
from palbert.tasks.spec import Task

Places = NDArray[np.int64]
SPECIAL = -1
"""The word that special tokens belong to: none."""


@dataclass(frozen=True)
class Word:
    """A word of a row."""

    text: str
    start: int
    """Where it begins in its text, in characters."""
    end: int
    column: int
    """0, or 1 for the second text of a pair."""


@dataclass(frozen=True)
class Row:
    """One text or pair, tokenized, with the words that its tokens belong to."""

    portion: Portion
    """The row, for any number of copies."""
    template: Template
    words: tuple[Word, ...]
    """All words that the model sees, those of the first text first."""
    word_of: Places
    """The word of each token of one copy, or `SPECIAL`, in the order in which a batch of one copy holds them."""

    @classmethod
    def of(cls, task: Task, texts: Sequence[str], tokenizer: TextTokenizer) -> Row:
        """Tokenize a text or pair as the task reads it, special tokens added and long texts cut off."""
        ids, offsets = tokenizer.with_offsets(texts)
        columns = tuple(ids.take(np.array([column])) for column in range(len(texts)))
        portion = Portion(task.name, task.name, columns, np.zeros(1, dtype=np.int64), task.max_length, task.siamese)
        places = _places(portion, tokenizer.template)
        words: list[Word] = []
        word_of = np.full(len(places), SPECIAL)
        first = 0
        for column, (text, spans) in enumerate(zip(texts, offsets, strict=True)):
            seen = np.flatnonzero((places >= first) & (places < first + len(spans)))
            found, owners = words_of(text, [spans[place] for place in places[seen] - first])
            word_of[seen] = len(words) + np.array(owners, dtype=np.int64)
            words += [Word(text[start:end], start, end, column) for start, end in found]
            first += len(spans)
        return cls(portion, tokenizer.template, tuple(words), word_of)

    def copies(self, count: int) -> PackedBatch:
        """Return a batch of the row, repeated."""
        return collate([replace(self.portion, rows=np.zeros(count, dtype=np.int64))], self.template)

    def order(self, count: int) -> Places:
        """Return where the tokens of each copy are in a batch of `count` copies, (copies, tokens).

        A batch holds a siamese pair as two sequences: all first ones come before all second ones.
        """
        copies = np.arange(count)[:, None]
        blocks = [
            count * start + copies * (stop - start) + np.arange(stop - start)
            for start, stop in zip(self._starts[:-1], self._starts[1:], strict=True)
        ]
        return np.concatenate(blocks, axis=1)

    def masked(self, left_out: Sequence[Sequence[int]], token: int) -> PackedBatch:
        """Return a batch with one copy for each list of words, in which another token stands for these words."""
        batch = self.copies(len(left_out))
        ids, order = batch.ids.clone(), self.order(len(left_out))
        for copy, words in enumerate(left_out):
            ids[torch.from_numpy(order[copy, np.isin(self.word_of, words)])] = token
        return replace(batch, ids=ids)

    def by_word(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Add up the scores of the tokens of one copy, (tokens,): those of each word, and those of special tokens."""
        own = self.word_of != SPECIAL
        sums = np.zeros(len(self.words))
        np.add.at(sums, self.word_of[own], scores[own])
        return sums, float(scores[~own].sum())

    @property
    def tokens(self) -> int:
        """The tokens of one copy."""
        return len(self.word_of)

    @cached_property
    def _starts(self) -> list[int]:
        starts: list[int] = self.copies(1).starts.tolist()
        return starts


def _places(portion: Portion, template: Template) -> Places:
    """Return which token each place of a batch holds, as its number among those of all texts; −1 for special tokens.

    Numbers are packed in place of the tokens, so that whatever `collate` cuts off is cut off here too.
    """
    numbered, first = [], 0
    for column in portion.tokens:
        count = int(column.lengths[0])
        numbered.append(Ragged.from_rows([[-1 - number for number in range(first, first + count)]]))
        first += count
    ids = collate([replace(portion, tokens=tuple(numbered))], template).ids.numpy().astype(np.int64)
    return np.where(ids < 0, -1 - ids, -1)
