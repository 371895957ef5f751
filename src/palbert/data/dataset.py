"""Dataset: rows of files, checked and tokenized, in a cache that notices when the files change."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.data.ragged import Ragged, Texts
from palbert.data.row_weights import read_weights
from palbert.data.split_column import rows_of_split
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, RunFolderError
from palbert.readers import Chunk, Dialect, read_chunks, resolve_files
from palbert.runtime.files import cache_entry, sha256
from palbert.runtime.progress import bar
from palbert.targets.labels import LabelReader, unknown_label
from palbert.tasks.sets import DataFiles
from palbert.tasks.sources import Source

FORMAT = 2  # of the cache; raising it invalidates every entry
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dataset:
    """Rows of one split of a task, or of one of its extra training sets."""

    task: str
    split: str
    ids: Texts
    texts: tuple[Texts, ...]
    tokens: tuple[Ragged, ...]
    labels: NDArray[Any] | None
    """As the task's target keeps them, (rows,) or (rows, classes); None where the files have no label column."""
    dropped: int
    """Rows left out because they lacked a text or a label."""
    unmapped: int
    """Rows left out because the label mapping says "drop"."""
    files: dict[str, str]
    """sha256 of each file."""
    unpaired: int = 0
    """Premises left out of triplets because they lacked an entailment or a contradiction."""
    overlapping: int = 0
    """Training rows left out because they also occur in dev or test."""
    weights: NDArray[np.float64] | None = None
    """How much each row counts, as the files have it, (rows,); None where no column of weights is read."""

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
            weights=None if self.weights is None else self.weights[rows],
        )


def load_dataset(files: DataFiles, tokenizer: TextTokenizer, *, cache: Path | None = None) -> Dataset:
    """Read and tokenize files, or load the rows from the cache if the files are unchanged."""
    listed = [str(file) for source in files.sources for file in resolve_files(source.path)]
    hashes = {file: sha256(Path(file)) for file in dict.fromkeys(listed)}
    folder = (cache or cache_folder()) / _key(key_settings(files, [hashes[file] for file in listed], tokenizer))
    if os.path.isfile(folder / "dataset.json"):  # False, not an error, where the folder cannot be read
        try:
            return _load(folder, files, hashes)
        except (OSError, ValueError) as error:  # files were removed, or a disk was full
            log.warning("The token cache is written again: %s", error)
            shutil.rmtree(folder, ignore_errors=True)
    rows = _read(files)
    tokens = _tokenize(rows.texts, tokenizer, f"{files.task} {files.split}")
    try:
        _save(folder, rows, tokens)
    except (RunFolderError, OSError) as error:  # a cache is a convenience
        log.warning("The token cache cannot be written: %s", error)
        return _from_rows(rows, tokens, files, hashes)
    return _load(folder, files, hashes)


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
    weights: list[float] = field(default_factory=list)


def _read(files: DataFiles) -> _Rows:
    """Read all files as one data set."""
    rows = _Rows([], tuple([] for _ in files.text), None)
    labels: list[Any] = []
    for source in files.sources:
        dialect = source.dialect_over(files.dialect)
        mapping = source.labels if source.labels is not None else files.labels
        reader = LabelReader(files.target, labels=mapping, decimal=dialect.decimal)
        for chunk in read_chunks(source.path, dialect=dialect):
            if not chunk.columns:
                continue  # JSONL without rows names no columns
            chunk = rows_of_split(chunk, files.marked)
            absent = files.labels_optional and (source.label or files.label) not in chunk.columns
            _read_chunk(chunk, rows, labels, files, source, reader if files.labelled and not absent else None)
        reader.check(source.path)
    if not rows.ids:
        names = ", ".join(source.path for source in files.sources)
        left_out = f" ({rows.dropped + rows.unmapped} were dropped)" if rows.dropped + rows.unmapped else ""
        marked = f" marked as {files.split} in the column '{files.marked.column}'" if files.marked else ""
        hint = f'Mark some, or set tasks.{files.task}.dev = "10%"' if marked and files.split == "dev" else None
        raise DataError(f"{names}: no rows for {files.task} {files.split}{marked}{left_out}.", hint=hint)
    if labels and len(labels) != len(rows.ids):
        raise DataError(f"{files.task} {files.split}: some rows have a label in '{files.label}' and some do not.")
    if labels:
        rows.labels = files.target.array(labels)
    return rows


def _read_chunk(
    chunk: Chunk,
    rows: _Rows,
    labels: list[Any],
    files: DataFiles,
    source: Source,
    reader: LabelReader | None,
) -> None:
    columns = [chunk.column(name) for name in source.text or files.text]
    raw_labels: list[Any] = [""] * len(chunk)
    if reader:
        raw_labels = chunk.labels(source.label or files.label, lists=files.target.many)
    weights = read_weights(chunk, files.row_weight) if files.row_weight else None
    raw_ids = chunk.column(files.id) if files.id in chunk.columns else None
    for index, line in enumerate(chunk.lines):
        texts = [(column[index] or "").strip() for column in columns]
        raw = raw_labels[index]
        weight = weights[index] if weights else 1.0
        unlabelled = raw is None and files.labels_optional and files.bad_rows == "error"
        if not all(texts) or (reader and raw is None and not unlabelled) or weight is None:
            if files.bad_rows == "error":
                lacking = (source.label or files.label) if raw is None else files.row_weight
                raise _bad_row(chunk, line, texts, source.text or files.text, lacking or "")
            rows.dropped += 1
            continue
        if reader and not unlabelled:
            try:
                label = reader(raw)
            except ValueError as error:
                place = f"tasks.{files.task}."
                raise unknown_label(chunk.path, line, error, raw, target=files.target, place=place) from None
            if label is None:
                rows.unmapped += 1
                continue
            labels.append(label)
        if weights:
            rows.weights.append(weight)
        for column, text in zip(rows.texts, texts, strict=True):
            column.append(text)
        rows.ids.append((raw_ids[index] if raw_ids else None) or str(len(rows.ids)))


def _bad_row(chunk: Chunk, line: int, texts: list[str], names: tuple[str, ...], lacking: str) -> DataError:
    """Return the error of a row without a text, or without what the column `lacking` should hold."""
    empty = [name for name, text in zip(names, texts, strict=True) if not text]
    column = empty[0] if empty else lacking
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


def key_settings(files: DataFiles, hashes: list[str], tokenizer: TextTokenizer) -> dict[str, Any]:
    """Return everything that the cached arrays depend on."""
    fields = ("text", "label", "labels", "id", "bad_rows")
    target = {"target": files.target.choice, "classes": files.target.classes, "range": files.target.range}
    settings = {
        "format": FORMAT,
        "files": hashes,
        "sources": [
            _without_open(source.model_dump(mode="json", exclude={"path"})) | {"suffix": _suffix(source.path)}
            for source in files.sources
        ],
        "task": {**{name: getattr(files, name) for name in fields}, **_without_open(asdict(files.dialect)), **target},
        "labels_optional": files.labels_optional,
        "tokenizer": tokenizer.sha256,
        **({"marked": [files.marked.column, *files.marked.splits]} if files.marked else {}),
    }
    if files.row_weight:  # only then, so that entries without weights keep their keys
        settings["row_weight"] = files.row_weight
    return settings


def _key(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:32]


def _without_open(settings: dict[str, Any]) -> dict[str, Any]:
    """Leave out the settings of a dialect that are not given, except for quoting, which keys always had."""
    settled = {each.name for each in fields_of(Dialect)} - {"quoting"}
    return {name: value for name, value in settings.items() if value is not None or name not in settled}


def _suffix(path: str) -> str:
    """Return what the kind of a file is read from."""
    suffix = Path(path).suffix
    return suffix if suffix.lower() != ".gz" else "".join(Path(path).suffixes[-2:])


def _save(folder: Path, rows: _Rows, tokens: tuple[Ragged, ...]) -> None:
    with cache_entry(folder, mark="dataset.json") as temporary:
        Texts.from_rows(rows.ids).bytes.save(temporary, "ids")
        for index, (text, ids) in enumerate(zip(rows.texts, tokens, strict=True)):
            Texts.from_rows(text).bytes.save(temporary, f"text{index}")
            ids.save(temporary, f"tokens{index}")
        if rows.labels is not None:
            np.save(temporary / "labels.npy", rows.labels)
        if rows.weights:
            np.save(temporary / "weights.npy", np.array(rows.weights))
        facts = {"columns": len(rows.texts), "labelled": rows.labels is not None}
        facts |= {"dropped": rows.dropped, "unmapped": rows.unmapped}
        (temporary / "dataset.json").write_text(json.dumps(facts))


def _load(folder: Path, files: DataFiles, hashes: dict[str, str]) -> Dataset:
    facts = json.loads((folder / "dataset.json").read_text())
    return Dataset(
        task=files.task,
        split=files.split,
        ids=Texts(Ragged.load(folder, "ids")),
        texts=tuple(Texts(Ragged.load(folder, f"text{i}")) for i in range(facts["columns"])),
        tokens=tuple(Ragged.load(folder, f"tokens{i}") for i in range(facts["columns"])),
        labels=np.load(folder / "labels.npy") if facts["labelled"] else None,
        weights=np.load(folder / "weights.npy") if files.row_weight else None,
        dropped=facts["dropped"],
        unmapped=facts["unmapped"],
        files=hashes,
    )


def _from_rows(rows: _Rows, tokens: tuple[Ragged, ...], files: DataFiles, hashes: dict[str, str]) -> Dataset:
    return Dataset(
        task=files.task,
        split=files.split,
        ids=Texts.from_rows(rows.ids),
        texts=tuple(Texts.from_rows(column) for column in rows.texts),
        tokens=tokens,
        labels=rows.labels,
        weights=np.array(rows.weights) if rows.weights else None,
        dropped=rows.dropped,
        unmapped=rows.unmapped,
        files=hashes,
    )
