"""Rows: chunks of files, checked, with their labels and weights read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from palbert.data.row_weights import read_weights
from palbert.data.snapshot import Snapshot
from palbert.data.split_column import rows_of_split
from palbert.errors import DataError
from palbert.readers import Chunk, read_chunks
from palbert.targets.labels import LabelReader, unknown_label
from palbert.tasks.sets import DataFiles
from palbert.tasks.sources import Source

CHUNK = 20_000
"""Rows that are in memory at a time, of one step of the work."""


@dataclass
class Rows:
    """The rows of one chunk that are kept, and how many are not."""

    ids: list[str | None]
    """None where the file has no id."""
    texts: tuple[list[str], ...]
    labels: list[Any] = field(default_factory=list)
    """As the target reads them; empty where the file has no label column."""
    weights: list[float] = field(default_factory=list)
    dropped: int = 0
    unmapped: int = 0

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class Progress:
    """How far files are read: everything that reading the next chunk depends on."""

    source: int = 0
    """The number of the source."""
    file: int = 0
    """The number of the file among those of the source."""
    chunks: int = 0
    """How many chunks of the file are read."""
    signs: dict[str, Any] = field(default_factory=dict)
    """What the labels of the source showed about its decimal sign, and how far they are apart."""


def read_rows(files: DataFiles, snapshot: Snapshot, start: Progress) -> Iterator[tuple[Rows, Progress]]:
    """Read the chunks of all files as one data set, each with how far the reading is after it.

    Args:
        files: How the files are read.
        snapshot: The files.
        start: Where to start; the chunks before it are skipped.

    Raises:
        DataError: A row cannot be used, or a file cannot be read or has changed.
    """
    try:
        yield from _chunks(files, snapshot, start)
    except DataError:
        snapshot.check()  # a file that changed is the better reason
        raise
    snapshot.check()


def _chunks(files: DataFiles, snapshot: Snapshot, start: Progress) -> Iterator[tuple[Rows, Progress]]:
    for number, source in enumerate(files.sources):
        if number < start.source:
            continue
        resumed = number == start.source
        reader = _SourceReader(files, source)
        reader.labels.restore(start.signs if resumed else {})
        for place, file in enumerate(snapshot.paths[number]):
            done = start.chunks if resumed and place == start.file else 0
            if resumed and place < start.file:
                continue
            for count, chunk in enumerate(read_chunks(str(file), dialect=reader.dialect, size=CHUNK), 1):
                if count > done:
                    rows = reader.read(chunk)
                    yield rows, Progress(number, place, count, reader.labels.signs)
        reader.labels.check(source.path)


class _SourceReader:
    """Reads the chunks of one source: its own settings, and the task's where it has none."""

    def __init__(self, files: DataFiles, source: Source) -> None:
        self.files = files
        self.dialect = source.dialect_over(files.dialect)
        self.text = source.text or files.text
        self.label = source.label or files.label
        mapping = source.labels if source.labels is not None else files.labels
        self.labels = LabelReader(files.target, labels=mapping, decimal=self.dialect.decimal)

    def read(self, chunk: Chunk) -> Rows:
        """Check the rows of a chunk and read their labels."""
        files, rows = self.files, Rows([], tuple([] for _ in self.files.text))
        if not chunk.columns:
            return rows  # JSONL without rows names no columns
        chunk = rows_of_split(chunk, files.marked)
        labelled = files.labelled and not (files.labels_optional and self.label not in chunk.columns)
        columns = [chunk.column(name) for name in self.text]
        raw_labels: list[Any] = [""] * len(chunk)
        if labelled:
            raw_labels = chunk.labels(self.label, lists=files.target.many)
        weights = read_weights(chunk, files.row_weight) if files.row_weight else None
        raw_ids = chunk.column(files.id) if files.id in chunk.columns else None
        for index, line in enumerate(chunk.lines):
            texts = [(column[index] or "").strip() for column in columns]
            raw = raw_labels[index]
            weight = weights[index] if weights else 1.0
            unlabelled = raw is None and files.labels_optional and files.bad_rows == "error"
            if not all(texts) or (labelled and raw is None and not unlabelled) or weight is None:
                if files.bad_rows == "error":
                    raise self._bad_row(chunk, line, texts, lacking=self.label if raw is None else files.row_weight)
                rows.dropped += 1
                continue
            if labelled and not unlabelled:
                label = self._label(chunk, line, raw)
                if label is None:
                    rows.unmapped += 1
                    continue
                rows.labels.append(label)
            if weights:
                rows.weights.append(weight)
            for column, text in zip(rows.texts, texts, strict=True):
                column.append(text)
            rows.ids.append((raw_ids[index] if raw_ids else None) or None)
        return rows

    def _label(self, chunk: Chunk, line: int, raw: Any) -> Any:
        try:
            return self.labels(raw)
        except ValueError as error:
            place = f"tasks.{self.files.task}."
            raise unknown_label(chunk.path, line, error, raw, target=self.files.target, place=place) from None

    def _bad_row(self, chunk: Chunk, line: int, texts: list[str], *, lacking: str | None) -> DataError:
        """Return the error of a row without a text, or without what the column `lacking` should hold."""
        empty = [name for name, text in zip(self.text, texts, strict=True) if not text]
        column = empty[0] if empty else lacking or ""
        return DataError(
            f"{chunk.path}, line {line}: the column '{column}' is empty.",
            hint='Fix the row, or set bad_rows = "drop" for this task to leave such rows out.',
        )
