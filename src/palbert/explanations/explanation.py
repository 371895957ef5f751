"""Explanation: the scores of the words that led to an answer, as plain values and as HTML."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from palbert.explanations.markup import explanations_html, similar_html


@dataclass(frozen=True)
class WordScore:
    """A word of a text and its share in the output."""

    text: str
    start: int
    """Where the word begins in its text, in characters."""
    end: int
    score: float
    """How much the word raises the output; below 0 it lowers it."""
    column: int
    """0, or 1 for the second text of a pair."""


@dataclass(frozen=True)
class Interactions:
    """What words of the two texts of a pair do together, beyond what each does alone."""

    first: tuple[int, ...]
    """Which words of the first text, as indices into the explanation's words."""
    second: tuple[int, ...]
    """Which words of the second text."""
    values: tuple[tuple[float, ...], ...]
    """f(both there) − f(without i) − f(without j) + f(without both), a row per word of the first text."""
    left_out: int
    """Words of both texts that are not here: those that change the output least when they are masked."""


@dataclass(frozen=True)
class Explanation:
    """Which words led to an answer, and by how much."""

    task: str
    target: str
    """The class whose log odds are explained; empty for a number."""
    method: str
    words: tuple[WordScore, ...]
    special: float
    """The sum of the scores of special tokens."""
    output: float
    """The log odds of the class, or the number before it is clipped to its range."""
    baseline: float
    """The output without any word: padding in the place of each, or the mask token for occlusion."""
    completeness_error: float | None
    """How far the scores are from adding up to output − baseline, as a share of it; None for methods without steps."""
    steps: int | None
    """The steps between baseline and text; None where a method has no steps."""
    interactions: Interactions | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        values = asdict(self)
        if self.interactions is None:
            del values["interactions"]
        return values

    def _repr_html_(self) -> str:
        return explanations_html([self])


class Explanations(list[Explanation]):
    """Explanations of several texts, shown in a notebook one below the other."""

    def _repr_html_(self) -> str:
        return explanations_html(self)


@dataclass(frozen=True)
class SimilarRow:
    """A training row, and how near it is."""

    texts: tuple[str, ...]
    answer: Any
    """The row's label, as the task's target shows answers; None where the row has none."""
    similarity: float
    """The cosine of both rows' vectors."""
    set: str
    """The training set that the row belongs to."""
    id: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "texts": list(self.texts),
            "answer": self.answer,
            "similarity": self.similarity,
            "set": self.set,
            "id": self.id,
        }

    def _repr_html_(self) -> str:
        return similar_html([[self]])


class SimilarTo(list[list[SimilarRow]]):
    """The training rows that are most like each of several texts, shown in a notebook as tables."""

    def _repr_html_(self) -> str:
        return similar_html(self)
