"""Dataset: one split of one task, read, checked, tokenized, and kept in a cache that notices changes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from palbert.data.labels import LabelReader, outside
from palbert.data.ragged import Ragged, Texts
from palbert.data.readers import Chunk, read_chunks, resolve_files
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, RunFolderError
from palbert.runtime.files import cache_entry, sha256
from palbert.runtime.progress import bar
from palbert.tasks.sources import Quoting, Source
from palbert.tasks.spec import Task

Split = Literal["train", "dev", "test"]

FORMAT = 2  # of the cache; another number makes every entry new
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dataset:
    """Rows of one split of one task."""

    task: str
    split: str
    ids: Texts
    texts: tuple[Texts, ...]
    tokens: tuple[Ragged, ...]
    labels: NDArray[Any] | None
    """Class indices (int64) or numbers (float32); None where the files have no label column."""
    dropped: int
    """Rows left out because they lacked a text or a label."""
    unmapped: int
    """Rows left out because the label mapping says "drop"."""
    files: dict[str, str]
    """sha256 of each file."""
    unpaired: int = 0
    """Premises left out of triplets because they lacked an entailment or a contradiction."""
    overlapping: int = 0
    """Training rows left out because dev or test has them too."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[np.int64]) -> Dataset:
        """Return some of the rows, in that order."""
        return replace(
            self,
            ids=self.ids.take(rows),
            texts=tuple(column.take(rows) for column in self.texts),
            tokens=tuple(column.take(rows) for column in self.tokens),
            labels=None if self.labels is None else self.labels[rows],
        )


def load_dataset(task: Task, split: Split, tokenizer: TextTokenizer, *, cache: Path | None = None) -> Dataset:
    """Read and tokenize one split, or take it from the cache if the files are the same."""
    sources: tuple[Source, ...] = getattr(task, split)
    files = {str(file): sha256(file) for source in sources for file in resolve_files(source.path)}
    folder = (cache or cache_folder()) / _key(task, split, list(files.values()), tokenizer)
    if os.path.isfile(folder / "dataset.json"):  # False, not an error, where nobody may look
        try:
            return _load(folder, task.name, split, files)
        except (OSError, ValueError) as error:  # somebody has taken parts away, or a disk was full
            log.warning("The token cache is made anew: %s", error)
            shutil.rmtree(folder, ignore_errors=True)
    rows = _read(task, split)
    tokens = _tokenize(rows.texts, tokenizer, f"{task.name} {split}")
    try:
        _save(folder, rows, tokens)
    except (RunFolderError, OSError) as error:  # a cache is a convenience
        log.warning("The token cache cannot be written: %s", error)
        return _from_rows(task.name, split, rows, tokens, files)
    return _load(folder, task.name, split, files)


def cache_folder() -> Path:
    """Return where token caches are kept: $PALBERT_CACHE, or palbert in the user's cache folder."""
    if chosen := os.environ.get("PALBERT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "palbert"


@dataclass
class _Rows:
    ids: list[str]
    texts: tuple[list[str], ...]
    labels: NDArray[Any] | None
    dropped: int = 0
    unmapped: int = 0


def _read(task: Task, split: Split) -> _Rows:
    """Read all files of a split as one set."""
    rows = _Rows([], tuple([] for _ in task.text), None)
    labels: list[float] = []
    for source in getattr(task, split):
        reader = LabelReader(
            task.target,
            classes=task.classes,
            range=task.range,
            labels=source.labels if source.labels is not None else task.labels,
        )
        quoting: Quoting = source.quoting or task.quoting
        for chunk in read_chunks(source.path, quoting=quoting):
            if not chunk.columns:
                continue  # JSONL without rows names no columns
            label = source.label or task.label
            unread = not task.labelled or (split == "test" and label not in chunk.columns)
            _read_chunk(chunk, rows, labels, task, source, None if unread else reader)
    if not rows.ids:
        names = ", ".join(source.path for source in getattr(task, split))
        left_out = f" ({rows.dropped + rows.unmapped} were dropped)" if rows.dropped + rows.unmapped else ""
        raise DataError(f"{names}: no rows for {task.name} {split}{left_out}.")
    if labels and len(labels) != len(rows.ids):
        raise DataError(f"{task.name} {split}: some files have the column '{task.label}' and some do not.")
    if labels:
        rows.labels = np.array(labels, dtype=np.float32 if task.target == "number" else np.int64)
    return rows


def _read_chunk(
    chunk: Chunk,
    rows: _Rows,
    labels: list[float],
    task: Task,
    source: Source,
    reader: LabelReader | None,
) -> None:
    columns = [chunk.column(name) for name in source.text or task.text]
    raw_labels = chunk.column(source.label or task.label) if reader else [""] * len(chunk)
    raw_ids = chunk.column(task.id) if task.id in chunk.columns else None
    for index, line in enumerate(chunk.lines):
        texts = [(column[index] or "").strip() for column in columns]
        raw = raw_labels[index]
        if not all(texts) or (reader and not (raw or "").strip()):
            if task.bad_rows == "error":
                raise _bad_row(chunk, line, texts, source, task)
            rows.dropped += 1
            continue
        if reader:
            try:
                label = reader(raw or "")
            except ValueError as error:
                raise outside(chunk.path, line, error, raw or "") from None
            if label is None:
                rows.unmapped += 1
                continue
            labels.append(label)
        for column, text in zip(rows.texts, texts, strict=True):
            column.append(text)
        rows.ids.append((raw_ids[index] if raw_ids else None) or str(len(rows.ids)))


def _bad_row(chunk: Chunk, line: int, texts: list[str], source: Source, task: Task) -> DataError:
    names = source.text or task.text
    empty = [name for name, text in zip(names, texts, strict=True) if not text]
    column = empty[0] if empty else source.label or task.label
    return DataError(
        f"{chunk.path}, line {line}: the column '{column}' is empty.",
        hint='Fix the row, or set bad_rows = "drop" for this task to leave such rows out.',
    )


def _tokenize(columns: tuple[list[str], ...], tokenizer: TextTokenizer, name: str) -> tuple[Ragged, ...]:
    done = []
    with bar(f"tokenizing {name}", total=sum(len(column) for column in columns)) as line:
        for column in columns:
            parts = []
            for part in tokenizer.stream(column):
                parts.append(part)
                line.advance(len(part))
            done.append(Ragged.concatenate(parts))
    return tuple(done)


def _key(task: Task, split: str, hashes: list[str], tokenizer: TextTokenizer) -> str:
    """Hash all that the cached arrays depend on."""
    fields = {"text", "label", "labels", "id", "classes", "range", "target", "quoting", "bad_rows"}
    settings = {
        "format": FORMAT,
        "files": hashes,
        "sources": [
            source.model_dump(mode="json", exclude={"path"}) | {"suffix": Path(source.path).suffix}
            for source in getattr(task, split)
        ],
        "task": task.model_dump(mode="json", include=fields),
        "labels_optional": split == "test",
        "tokenizer": tokenizer.sha256,
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:32]


def _save(folder: Path, rows: _Rows, tokens: tuple[Ragged, ...]) -> None:
    with cache_entry(folder, mark="dataset.json") as temporary:
        Texts.from_rows(rows.ids).bytes.save(temporary, "ids")
        for index, (text, ids) in enumerate(zip(rows.texts, tokens, strict=True)):
            Texts.from_rows(text).bytes.save(temporary, f"text{index}")
            ids.save(temporary, f"tokens{index}")
        if rows.labels is not None:
            np.save(temporary / "labels.npy", rows.labels)
        facts = {"columns": len(rows.texts), "labelled": rows.labels is not None}
        facts |= {"dropped": rows.dropped, "unmapped": rows.unmapped}
        (temporary / "dataset.json").write_text(json.dumps(facts))


def _load(folder: Path, task: str, split: str, files: dict[str, str]) -> Dataset:
    facts = json.loads((folder / "dataset.json").read_text())
    return Dataset(
        task=task,
        split=split,
        ids=Texts(Ragged.load(folder, "ids")),
        texts=tuple(Texts(Ragged.load(folder, f"text{i}")) for i in range(facts["columns"])),
        tokens=tuple(Ragged.load(folder, f"tokens{i}") for i in range(facts["columns"])),
        labels=np.load(folder / "labels.npy") if facts["labelled"] else None,
        dropped=facts["dropped"],
        unmapped=facts["unmapped"],
        files=files,
    )


def _from_rows(task: str, split: str, rows: _Rows, tokens: tuple[Ragged, ...], files: dict[str, str]) -> Dataset:
    return Dataset(
        task=task,
        split=split,
        ids=Texts.from_rows(rows.ids),
        texts=tuple(Texts.from_rows(column) for column in rows.texts),
        tokens=tokens,
        labels=rows.labels,
        dropped=rows.dropped,
        unmapped=rows.unmapped,
        files=files,
    )
