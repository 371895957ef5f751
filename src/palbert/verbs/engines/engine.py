"""Engine: scores a file block by block; the local one does so in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.errors import AnswerError
from palbert.verbs.answer_columns import AnswerColumns

Columns = dict[str, list[Any]]
Scored = Iterator[tuple["Block", Columns]]


@dataclass(frozen=True)
class Block:
    """Some rows of the input: all columns as they are given, and the text columns without missing values."""

    given: Columns
    texts: dict[str, list[str]]
    rows: int


class Engine(ABC):
    """Scores the blocks of a file."""

    @abstractmethod
    def run(
        self,
        question: AnswerColumns,
        blocks: Callable[[], Iterator[Block]],
        *,
        source: Path,
        output: Path,
        advance: Callable[[int], None],
    ) -> Scored:
        """Yield each block with its columns of answers, in the order of the file.

        Args:
            question: What is asked.
            blocks: Reads the input; it may be called more than once.
            source: The input.
            output: The file that will be written; an engine may keep files next to it until then.
            advance: Is told how many rows have been scored.
        """


class LocalEngine(Engine):
    """Scores in this process, with the model that is loaded."""

    def run(
        self,
        question: AnswerColumns,
        blocks: Callable[[], Iterator[Block]],
        *,
        source: Path,
        output: Path,
        advance: Callable[[int], None],
    ) -> Scored:
        """Yield each block with its columns of answers, as soon as it is read."""
        done = 0
        for block in blocks():
            with rows_of(source, after=done):
                answers = question.answers(block.texts)
            yield block, answers
            advance(block.rows)
            done += block.rows


@contextmanager
def rows_of(source: Path, *, after: int) -> Iterator[None]:
    """Let an error about a row of a block name the row of the file.

    Args:
        source: The file.
        after: The rows of the file before the block.
    """
    try:
        yield
    except AnswerError as error:
        raise error.after(after, source) from error
