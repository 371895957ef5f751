"""Dataset: rows of files, checked and tokenized, in a cache that notices when the files change."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.data.ragged import Ragged, Texts
from palbert.data.token_cache import MARK, Arrays, RowArrays, build, fill, load_arrays
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RunFolderError
from palbert.readers import Dialect, resolve_files
from palbert.runtime.files import cache_folder, sha256
from palbert.tasks.sets import DataFiles

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
    """Read and tokenize files, or load the rows from the cache if the files are unchanged.

    The rows stay on disk: their arrays are mapped into memory, and the system reads what is used.
    """
    listed = [str(file) for source in files.sources for file in resolve_files(source.path)]
    hashes = _hashes(list(dict.fromkeys(listed)))
    folder = (cache or cache_folder()) / _key(key_settings(files, [hashes[file] for file in listed], tokenizer))
    if os.path.isfile(folder / MARK):  # False, not an error, where the folder cannot be read
        try:
            return _dataset(*load_arrays(folder), files, hashes)
        except (OSError, ValueError, KeyError) as error:  # files were removed or damaged, or a disk was full
            log.warning("The token cache is written again: %s", error)
            shutil.rmtree(folder, ignore_errors=True)
    try:
        resumed = build(folder, files, tokenizer)
    except (RunFolderError, OSError) as error:  # a cache is a convenience
        log.warning("The token cache cannot be written, and all rows are kept in memory: %s", error)
        arrays = RowArrays(None)
        facts = fill(arrays, files, tokenizer)
        return _dataset(arrays.in_memory(), facts, files, hashes)
    return _dataset(*load_arrays(folder, check=resumed), files, hashes)


def _hashes(files: list[str]) -> dict[str, str]:
    """Return the sha256 of each file; several are read at a time."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(sha256, map(Path, files)), strict=True))


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
