"""Predict a whole file chunk by chunk, in constant memory; the output appears when it is complete."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palbert.data.readers import as_text, column_names, count_rows, no_column, read_chunks
from palbert.errors import DataError, MissingExtraError, RunFolderError
from palbert.reporting.predictions import probability_column
from palbert.runtime.files import CSVWriter, new_file
from palbert.runtime.progress import bar
from palbert.targets import Target
from palbert.tasks.sources import Quoting
from palbert.verbs.predict import Prediction, Predictor

Write = Callable[[dict[str, list[Any]]], None]

CHUNK = 4096
log = logging.getLogger(__name__)


def predict_file(
    predictor: Predictor,
    task: str,
    source: Path,
    output: Path,
    *,
    columns: Sequence[str] | None = None,
    force: bool = False,
) -> int:
    """Write the rows of `source` with their predictions to `output`; return how many there were.

    Args:
        predictor: A loaded model.
        task: Which task to ask.
        source: A CSV, TSV, JSONL or Parquet file, quoted as the task's files are.
        output: A file of one of the same kinds.
        columns: Text columns, where they are named otherwise than in training.
        force: Replace an output that exists.
    """
    spec = predictor.task(task)
    names = list(columns or spec.text)
    if len(names) != len(spec.text):
        raise DataError(f"Task '{task}' takes {len(spec.text)} text columns, found {len(names)}.")
    if output.exists() and not force:
        raise RunFolderError(f"{output}: already exists.", hint="Add --force to replace it.")
    flat = output.suffix.lower() in (".csv", ".tsv")
    added = list(_answer_columns([], spec.target, flat=flat))
    kept = _columns_of(source, spec.quoting, wanted=names, added=added)
    done = empty = 0
    with _writer(output) as write, bar(f"predicting {task}", total=count_rows(str(source))) as line:
        for chunk in read_chunks(str(source), quoting=spec.quoting, size=CHUNK):
            # JSONL rows may lack what others have: every chunk gets all columns.
            given = {name: chunk.columns.get(name, [None] * len(chunk)) for name in kept}
            texts = [chunk.column(name) if name in chunk.columns else given[name] for name in names]
            rows = list(zip(*([text or "" for text in column] for column in texts), strict=True))
            empty += sum(not all(text.strip() for text in row) for row in rows)
            write({**given, **_answer_columns(predictor.predict(task, rows), spec.target, flat=flat)})
            done += len(chunk)
            line.advance(len(chunk))
    if empty:
        log.warning("%d of %d rows had an empty text; they were predicted nevertheless.", empty, done)
    return done


def _answer_columns(predictions: Sequence[Prediction], target: Target, *, flat: bool) -> dict[str, list[Any]]:
    """Return the answers and the probability of each class; a flat file cannot hold a list, so its text is written."""
    answers = [item.answer for item in predictions]
    if flat:
        answers = [target.show(answer) if isinstance(answer, list) else answer for answer in answers]
    return {
        "prediction": answers,
        **{
            probability_column(name): [(item.probabilities or {}).get(name) for item in predictions]
            for name in target.classes
        },
    }


def _columns_of(source: Path, quoting: Quoting, *, wanted: list[str], added: list[str]) -> list[str]:
    """Return the columns of the input; raise DataError if texts are missing or columns of answers are taken."""
    there = column_names(str(source), quoting=quoting)
    for name in wanted:
        if name not in there:
            raise no_column(str(source), name, there)
    for name in added:
        if name in there:
            raise DataError(
                f"{source}: its column '{name}' would clash with the answers.",
                hint="Rename it in the input.",
            )
    return there


@contextmanager
def _writer(output: Path) -> Iterator[Write]:
    """Give a function that appends columns; the output appears when the block ends without an error."""
    suffix = output.suffix.lower()
    openers = {".csv": _open_csv, ".tsv": _open_tsv, ".jsonl": _open_jsonl, ".parquet": _open_parquet}
    if suffix not in openers:
        raise DataError(f"{output}: unknown kind of file.", hint=f"Known: {', '.join(openers)}.")
    with new_file(output) as temporary, openers[suffix](temporary) as write:
        yield write


@contextmanager
def _open_csv(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = CSVWriter(stream)

        def write(columns: dict[str, list[Any]]) -> None:
            if not stream.tell():
                writer.writerow(columns)
            for row in zip(*columns.values(), strict=True):
                writer.writerow([as_text(value) for value in row])

        yield write


@contextmanager
def _open_tsv(path: Path) -> Iterator[Write]:
    """Write without quotes, as palbert and others read .tsv."""
    with path.open("w", encoding="utf-8", newline="") as stream:

        def write_row(row: Iterable[Any]) -> None:
            fields = [as_text(field) or "" for field in row]
            for field in fields:
                if re.search(r"[\t\n\r]", field):
                    raise DataError(
                        f"A .tsv file cannot hold a tab or a line break in a field, found {field!r:.60}.",
                        hint="Write .csv, .jsonl or .parquet.",
                    )
            stream.write("\t".join(fields) + "\n")

        def write(columns: dict[str, list[Any]]) -> None:
            if not stream.tell():
                write_row(columns)
            for row in zip(*columns.values(), strict=True):
                write_row(row)

        yield write


@contextmanager
def _open_jsonl(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as stream:

        def write(columns: dict[str, list[Any]]) -> None:
            for row in zip(*columns.values(), strict=True):
                stream.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=str) + "\n")

        yield write


@contextmanager
def _open_parquet(path: Path) -> Iterator[Write]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet files need", package="pyarrow", extra="parquet") from None
    writers: list[Any] = []

    def type_of(values: list[Any]) -> Any:
        try:
            found = pyarrow.array(values).type
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # of several types, as JSON allows
            return pyarrow.string()
        if pyarrow.types.is_list(found) and pyarrow.types.is_null(found.value_type):
            return pyarrow.list_(pyarrow.string())  # empty lists have no kind, and later ones may hold classes
        return pyarrow.string() if pyarrow.types.is_null(found) else found  # only missing values

    def write(columns: dict[str, list[Any]]) -> None:
        if not writers:
            fields = [(name, type_of(values)) for name, values in columns.items()]
            writers.append(pyarrow.parquet.ParquetWriter(path, pyarrow.schema(fields)))
        schema = writers[0].schema
        texts = {field.name for field in schema if field.type == pyarrow.string()}
        given = {
            name: [as_text(value) for value in values] if name in texts else values for name, values in columns.items()
        }
        try:
            writers[0].write_table(pyarrow.table(given, schema=schema))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise DataError(
                f"A .parquet file has one type of value per column: {error}.", hint="Write .jsonl or .csv."
            ) from error

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()
