"""Columns: which columns of a file hold the texts and the label, if there is only one plausible choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from palbert.errors import RecipeError
from palbert.readers import Dialect, as_text, read_chunks
from palbert.targets.decimals import as_number

PAIRS = [
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("sentence_a", "sentence_b"),
    ("question", "sentence"),
    ("query", "passage"),
]
"""Column names that are a pair."""
USUAL_LABELS = ("label", "labels", "class", "category", "target", "sentiment", "stars", "rating", "score", "grade")
"""Column names that error messages prefer as an example."""
KEYS = ("id", "ids", "index", "uuid", "guid", "key", "row", "number", "nr", "no")
"""Column names that are not labels."""
DATE = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}")
LOOKED_AT = 2000
"""The rows at the beginning of a file that say what its columns hold."""
LONG = 25
"""Texts are at least so long on average, if they have no spaces."""


@dataclass(frozen=True)
class Columns:
    """The first rows of a file, by column."""

    path: str
    cells: Mapping[str, Sequence[Any]]

    @classmethod
    def of(cls, path: str, dialect: Dialect) -> Columns:
        """Read the beginning of a file."""
        chunk = next(iter(read_chunks(path, dialect=dialect, size=LOOKED_AT)))
        return cls(path, {name: cells for name, cells in chunk.columns.items() if name.strip()})

    def without(self, *names: str) -> list[str]:
        """Return all columns but these."""
        return [name for name in self.cells if name not in names]

    def is_text(self, name: str) -> bool:
        """Whether a column looks like texts: most cells are words, or long."""
        cells = [text for cell in self.cells[name] if (text := _text(cell))]
        words = [text for text in cells if as_number(text) is None]
        if len(words) * 2 <= len(cells) or not cells:
            return False
        spaced = sum(" " in text for text in words)
        return len(set(cells)) * 4 > len(cells) and (
            spaced * 2 > len(words) or sum(map(len, words)) > LONG * len(words)
        )

    def is_label(self, name: str) -> bool:
        """Whether a column looks like labels: few values for many rows, numbers with fractions, or lists."""
        cells = [cell for cell in self.cells[name] if _text(cell) or isinstance(cell, list)]
        if any(isinstance(cell, list) for cell in cells):
            return True
        texts = [_text(cell) for cell in cells]
        if all(DATE.match(text) for text in texts):
            return False
        numbers = [as_number(text) for text in texts]
        different = len(set(texts))
        fractions = None not in numbers and any(number and not number.is_integer() for number in numbers)
        return different > 1 and (different * 2 <= len(texts) or (fractions and not self.is_text(name)))

    def is_key(self, name: str) -> bool:
        """Whether a column only tells rows apart, or says when they were made: ids, dates, and numbered rows."""
        cells = [_text(cell) for cell in self.cells[name]]
        if name.strip().casefold() in KEYS or all(DATE.match(cell) for cell in cells):
            return True
        numbers = [as_number(cell) for cell in cells]
        return len(cells) > 1 and all(
            before is not None and after is not None and after - before == 1 for before, after in pairwise(numbers)
        )


def guess_label(columns: Columns, others: list[str], *, text_open: bool, place: str) -> str:
    """Return the one column that can be the label.

    Args:
        columns: The beginning of the training file.
        others: The columns that are not used for something else.
        text_open: Whether the text column has to be found, too.
        place: Where the recipe describes the task, for messages.

    Raises:
        RecipeError: No column is plausible, or several are; the message has the line to write.
    """
    left = [name for name in others if not (text_open and columns.is_text(name))]
    left = [name for name in left if not columns.is_key(name)] or left
    likely = [name for name in left if columns.is_label(name)] or (left if len(left) == 1 else [])
    usual = [name for name in likely if name.strip().casefold() in USUAL_LABELS]
    if len(likely) == 1 and (len(left) == 1 or usual):
        return likely[0]
    likely = left  # what is not clear is not guessed
    candidates = likely or left or others or ["column"]
    example = next((name for name in candidates if name.casefold() in USUAL_LABELS), candidates[0])
    raise RecipeError(f'{place}.label: {_choices(columns, likely or others, "label")} Set label = "{example}".')


def guess_text(columns: Columns, others: list[str], *, kind: str | None, place: str) -> list[str]:
    """Return the one column that can be the text, or the two columns that can be a pair; otherwise as above."""
    likely = [name for name in others if columns.is_text(name)] or (others if len(others) == 1 else [])
    if len(likely) == 1 and kind != "pair":
        return likely
    pair = {name.casefold(): name for name in likely}
    if len(likely) == 2 and kind != "single" and (kind == "pair" or tuple(pair) in PAIRS):
        return likely
    example = (likely or others or ["column"])[0]
    lines = f'text = "{example}"'
    if len(likely or others) > 1:
        lines += f', or for pairs text = ["{(likely or others)[0]}", "{(likely or others)[1]}"]'
    raise RecipeError(f"{place}.text: {_choices(columns, likely or others, 'text')} Set {lines}.")


def _choices(columns: Columns, candidates: list[str], what: str) -> str:
    names = ", ".join(f"'{name}'" for name in candidates)
    if not candidates:
        return f"no column of {Path(columns.path).name} is left for the {what}; it has {', '.join(columns.cells)}."
    if len(candidates) == 1:
        return f"is {names} of {Path(columns.path).name} the {what}? It does not look like it."
    return f"several columns of {Path(columns.path).name} could be the {what}: {names}."


def _text(cell: Any) -> str:
    return "" if isinstance(cell, list | dict) else (as_text(cell) or "").strip()
