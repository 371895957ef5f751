"""Predict a whole file chunk by chunk, in constant memory; the output appears when it is complete."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from palbert.errors import DataError
from palbert.readers import Dialect, column_names, count_rows, read_chunks
from palbert.runtime.files import refuse_to_replace
from palbert.runtime.progress import bar
from palbert.tasks.sources import FileSettings
from palbert.verbs.answer_columns import AllTaskColumns, AnswerColumns, TaskColumns
from palbert.verbs.engines import Block, Engine, LocalEngine
from palbert.verbs.predict import Predictor
from palbert.verbs.table_writers import holds_lists, new_table

CHUNK = 4096
log = logging.getLogger(__name__)


def predict_file(
    predictor: Predictor,
    task: str | None,
    source: Path,
    output: Path,
    *,
    columns: Sequence[str] | None = None,
    settings: FileSettings | None = None,
    min_confidence: float | None = None,
    spreadsheet_safe: bool = False,
    force: bool = False,
    engine: Engine | None = None,
) -> int:
    """Write the rows of `source` with their predictions to `output`; return how many there were.

    Args:
        predictor: A loaded model.
        task: Which task to ask; None asks all whose text columns the file has, and writes one column per task.
        source: A data file of any kind, written as the task's files are.
        output: A .csv, .tsv, .jsonl, .xlsx or .parquet file; text may be compressed, as in .csv.gz.
        columns: Text columns, where they are named otherwise than in training.
        settings: How the input is written, where that differs from the task's files.
        min_confidence: Abstain where an answer is less likely to be right: its cell is empty, and `abstained` true.
        spreadsheet_safe: Put an apostrophe in front of texts that a spreadsheet program may take for a formula.
        force: Replace an output that exists.
        engine: Where the rows are scored; in this process unless given.
    """
    if not force:
        refuse_to_replace(output)
    question = _question(predictor, task, flat=not holds_lists(output), min_confidence=min_confidence)
    dialect = (settings or FileSettings()).dialect_over(question.tasks[0].dialect)
    there = column_names(str(source), dialect=dialect)
    names = question.text_columns(source, there, columns)
    _refuse_clashes(source, there, question.added())
    blocks = partial(_blocks, source, dialect, there, names)
    done = empty = 0
    rows = count_rows(str(source), dialect=dialect)
    with (
        new_table(output, spreadsheet_safe=spreadsheet_safe, replace=force) as write,
        bar(f"predicting {question.title}", total=rows) as line,
    ):
        scored = (engine or LocalEngine()).run(question, blocks, source=source, output=output, advance=line.advance)
        for block, answers in scored:
            empty += sum(not all(text.strip() for text in row) for row in zip(*block.texts.values(), strict=True))
            write({**block.given, **answers})
            done += block.rows
    if empty:
        log.warning("%d of %d rows had an empty text; they were predicted nevertheless.", empty, done)
    return done


def _question(predictor: Predictor, task: str | None, *, flat: bool, min_confidence: float | None) -> AnswerColumns:
    """Return what is asked: one task, or all of them."""
    if task is None:
        return AllTaskColumns(predictor, flat=flat, min_confidence=min_confidence)
    return TaskColumns(predictor, task, flat=flat, min_confidence=min_confidence)


def _blocks(source: Path, dialect: Dialect, there: list[str], names: list[str]) -> Iterator[Block]:
    """Read the input in blocks."""
    for chunk in read_chunks(str(source), dialect=dialect, size=CHUNK):
        # JSONL rows may lack what others have: every block gets all columns.
        given = {name: chunk.columns.get(name, [None] * len(chunk)) for name in there}
        texts = {name: chunk.column(name) if name in chunk.columns else given[name] for name in names}
        yield Block(given, {name: [text or "" for text in column] for name, column in texts.items()}, len(chunk))


def _refuse_clashes(source: Path, there: list[str], added: list[str]) -> None:
    """Raise DataError if the input has columns with the names of the answers."""
    for name in added:
        if name in there:
            raise DataError(
                f"{source}: its column '{name}' would clash with the answers.",
                hint="Rename it in the input.",
            )
