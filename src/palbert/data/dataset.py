"""Dataset: rows of files, checked and tokenized, in a cache that notices when the files change."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.data.ragged import Ragged, Texts
from palbert.data.snapshot import Snapshot
from palbert.data.token_cache import MARK, Arrays, RowArrays, build, fill, load_arrays
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, RunFolderError
from palbert.readers import Dialect
from palbert.runtime.files import cache_folder
from palbert.tasks.sets import DataFiles

FORMAT = 2  # of the cache; raising it invalidates every entry
IN_MEMORY = 2**30
"""The most bytes of files whose rows are kept in memory where no cache can be written."""
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
    """Read and tokenize files, or load the rows from the cache if the files are unchanged.

    The rows stay on disk: their arrays are mapped into memory, and the system reads what is used.
    """
    snapshot = Snapshot.of(files)
    folder = (cache or cache_folder()) / _key(key_settings(files, snapshot.in_order, tokenizer))
    if os.path.isfile(folder / MARK):  # False, not an error, where the folder cannot be read
        found = _loaded(folder, files, snapshot, check=True)
        if found:
            return found
    for _ in range(2):
        try:
            shared = build(folder, files, snapshot, tokenizer)
        except (RunFolderError, OSError) as error:  # a cache is a convenience, as long as the rows fit into memory
            return _in_memory(files, snapshot, tokenizer, error)
        found = _loaded(folder, files, snapshot, check=shared)
        if found:
            return found
    raise DataError(f"{folder}: what was written just now is damaged.", hint="Check the disk, or set PALBERT_CACHE.")


def _loaded(folder: Path, files: DataFiles, snapshot: Snapshot, *, check: bool) -> Dataset | None:
    """Load an entry of the cache; remove it and return None if it is damaged."""
    try:
        return _dataset(*load_arrays(folder, check=check), files, snapshot.hashes)
    except (OSError, ValueError, KeyError) as error:  # files were removed or damaged, or a disk was full
        log.warning("The token cache is written again: %s", error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _in_memory(files: DataFiles, snapshot: Snapshot, tokenizer: TextTokenizer, error: Exception) -> Dataset:
    """Read and tokenize files into memory; raise DataError if they are too large for that."""
    if snapshot.bytes > IN_MEMORY:
        raise DataError(
            f"{files.task} {files.split}: the token cache cannot be written, and files of "
            f"{snapshot.bytes / 2**30:.1f} GiB are not read into memory: {getattr(error, 'message', error)}",
            hint="Free some space, or name another folder in PALBERT_CACHE; the work so far is continued.",
        ) from error
    log.warning("The token cache cannot be written, and all rows are kept in memory: %s", error)
    arrays = RowArrays(None)
    facts = fill(arrays, files, snapshot, tokenizer)
    return _dataset(arrays.in_memory(), facts, files, snapshot.hashes)


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


def _dataset(arrays: Arrays, facts: Mapping[str, Any], files: DataFiles, hashes: dict[str, str]) -> Dataset:
    columns = range(facts["columns"])
    return Dataset(
        task=files.task,
        split=files.split,
        ids=Texts(_ragged(arrays, "ids")),
        texts=tuple(Texts(_ragged(arrays, f"text{index}")) for index in columns),
        tokens=tuple(_ragged(arrays, f"tokens{index}") for index in columns),
        labels=arrays["labels"] if facts["labelled"] else None,
        weights=arrays["weights"] if files.row_weight else None,
        dropped=facts["dropped"],
        unmapped=facts["unmapped"],
        files=hashes,
    )


def _ragged(arrays: Arrays, name: str) -> Ragged:
    return Ragged(arrays[f"{name}.values"], arrays[f"{name}.offsets"])
