"""Explain a whole file chunk by chunk: one line of JSON per row; the output appears when it is complete."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from palbert.errors import DataError
from palbert.readers import column_names, count_rows, read_chunks
from palbert.runtime.files import new_file, refuse_to_replace
from palbert.runtime.progress import bar
from palbert.tasks.sources import FileSettings
from palbert.verbs.answer_columns import TaskColumns
from palbert.verbs.engines.engine import rows_of
from palbert.verbs.predict import Predictor
from palbert.verbs.texts import Text

CHUNK = 64
"""Rows that are explained before the progress moves on."""


def explain_file(
    predictor: Predictor,
    task: str,
    source: Path,
    output: Path,
    *,
    columns: Sequence[str] | None = None,
    settings: FileSettings | None = None,
    similar: int = 0,
    force: bool = False,
    **options: Any,
) -> int:
    """Write an explanation of each row of `source` to `output`, a .jsonl file; return how many there were.

    Args:
        predictor: A loaded run.
        task: Whose answers are explained.
        source: A data file of any kind, written as the task's files are.
        output: The .jsonl file to write.
        columns: Text columns, where they are named otherwise than in training.
        settings: How the input is written, where that differs from the task's files.
        similar: How many training rows to add that are most like each row.
        force: Replace an output that exists.
        **options: Those of `Predictor.explain`.
    """
    if not force:
        refuse_to_replace(output)
    if output.suffix.lower() != ".jsonl":
        raise DataError(f"{output}: explanations are written as JSON lines.", hint="Name a .jsonl file.")
    predictor.explain(task, [], **options)  # refuses a wrong task or method before the file is read
    question = TaskColumns(predictor, task, flat=False)
    dialect = (settings or FileSettings()).dialect_over(question.tasks[0].dialect)
    names = question.text_columns(source, column_names(str(source), dialect=dialect), columns)
    done = 0
    with (
        new_file(output, replace=force) as temporary,
        temporary.open("w", encoding="utf-8") as stream,
        bar(f"explaining {task}", total=count_rows(str(source), dialect=dialect)) as line,
    ):
        for chunk in read_chunks(str(source), dialect=dialect, size=CHUNK):
            rows = zip(*([text or "" for text in chunk.column(name)] for name in names), strict=True)
            texts: list[Any] = [row[0] if len(row) == 1 else row for row in rows]
            with rows_of(source, after=done):
                for values in explained_rows(predictor, task, texts, similar=similar, **options):
                    stream.write(json.dumps(values, ensure_ascii=False) + "\n")
            done += len(chunk)
            line.advance(len(chunk))
    return done


def explained_rows(
    predictor: Predictor, task: str, texts: Sequence[Text], *, similar: int = 0, **options: Any
) -> Iterator[dict[str, Any]]:
    """Yield for each row its text, its explanation and, where they are asked for, similar training rows, for JSON."""
    near = predictor.similar(task, texts, count=similar) if similar else []
    for number, found in enumerate(predictor.explain(task, texts, **options)):
        rows = {"similar": [row.as_dict() for row in near[number]]} if similar else {}
        yield {"text": texts[number], **found.as_dict(), **rows}
