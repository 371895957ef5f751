"""Token cache: the rows of files as array files, written chunk by chunk; a build that was killed continues."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from palbert.data.array_files import ArrayFile, State, load_array, read_facts, write_facts
from palbert.data.ragged import Ragged, Texts
from palbert.data.rows import CHUNK, Progress, Rows, read_rows
from palbert.data.snapshot import Snapshot
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.readers import FileGoneError, count_rows
from palbert.runtime import locks
from palbert.runtime.files import OTHER_CACHE, cache_entry, disk_errors
from palbert.runtime.json_objects import parse_json
from palbert.runtime.progress import bar, console, is_shown
from palbert.tasks.sets import DataFiles

MARK = "dataset.json"
"""The file that a complete entry has: facts about its rows, and the checksum of every array."""
JOURNAL = "progress.json"
"""The file of an unfinished entry that says how far it is."""

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]


class _Sink(Protocol):
    """Where the rows of one array go."""

    state: State

    def append(self, rows: NDArray[Any]) -> None: ...


class _InMemory:
    """An array that is kept in memory, for the case that no file can be written."""

    def __init__(self) -> None:
        self.chunks: list[NDArray[Any]] = []
        self.state: State = {"shape": [0]}

    def append(self, rows: NDArray[Any]) -> None:
        self.chunks.append(rows)
        self.state = {"shape": [self.state["shape"][0] + len(rows)]}


class RowArrays:
    """The arrays of a data set while its rows are read.

    Args:
        folder: Where the array files are; None keeps the arrays in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.sinks: dict[str, Any] = {}
        self.facts = {"rows": 0, "labelled_rows": 0, "dropped": 0, "unmapped": 0}
        self.progress = Progress()

    def resume(self) -> None:
        """Continue what an earlier process has written; raise OSError or ValueError where nothing can be continued."""
        assert self.folder is not None, "only files outlive a process"
        journal = parse_json((self.folder / JOURNAL).read_text("utf-8"))
        if journal["chunk"] != CHUNK:
            raise ValueError("the chunks have another size")
        for name, state in journal["arrays"].items():
            self.sinks[name] = ArrayFile(self.folder / f"{name}.npy", state=state)
        self.facts, self.progress = journal["facts"], Progress(**journal["progress"])

    def append(self, rows: Rows, tokens: tuple[Ragged, ...], files: DataFiles) -> None:
        """Add the rows of a chunk."""
        first = self.facts["rows"]
        self._ragged("ids", Texts.from_rows([name or str(first + index) for index, name in enumerate(rows.ids)]).bytes)
        for index, (texts, ids) in enumerate(zip(rows.texts, tokens, strict=True)):
            self._ragged(f"text{index}", Texts.from_rows(texts).bytes)
            self._ragged(f"tokens{index}", ids)
        if rows.labels:
            self._sink("labels").append(files.target.array(rows.labels))
        if rows.weights:
            self._sink("weights").append(np.array(rows.weights))
        added = (len(rows), len(rows.labels), rows.dropped, rows.unmapped)
        self.facts = {name: value + more for (name, value), more in zip(self.facts.items(), added, strict=True)}

    def _ragged(self, name: str, rows: Ragged) -> None:
        values, offsets = self._sink(f"{name}.values"), self._sink(f"{name}.offsets")
        before = values.state["shape"][0] if values.state else 0
        offsets.append((rows.offsets if not offsets.state.get("shape", [0])[0] else rows.offsets[1:]) + before)
        values.append(rows.values)

    def _sink(self, name: str) -> _Sink:
        if name not in self.sinks:
            self.sinks[name] = _InMemory() if self.folder is None else ArrayFile(self.folder / f"{name}.npy")
        found: _Sink = self.sinks[name]
        return found

    def note(self, progress: Progress) -> None:
        """Write down how far the files are read, so that another process can continue from here."""
        if self.folder is None:
            return
        for sink in self.sinks.values():
            sink.flush()
        arrays = {name: sink.state for name, sink in self.sinks.items()}
        journal = {"chunk": CHUNK, "facts": self.facts, "progress": asdict(progress), "arrays": arrays}
        temporary = self.folder / f".{JOURNAL}"
        temporary.write_text(json.dumps(journal), "utf-8")
        temporary.replace(self.folder / JOURNAL)

    def finish(self, columns: int) -> dict[str, Any]:
        """Complete the files; return the facts about the rows."""
        facts: dict[str, Any] = {"columns": columns, "labelled": bool(self.facts["labelled_rows"])}
        facts |= {name: self.facts[name] for name in ("dropped", "unmapped")}
        if self.folder is not None:
            for sink in self.sinks.values():
                sink.finish()
            facts["arrays"] = {name: sink.state for name, sink in self.sinks.items()}
            write_facts(self.folder / MARK, facts)
            (self.folder / JOURNAL).unlink(missing_ok=True)
        return facts

    def close(self) -> None:
        """Close the files as they are."""
        for sink in self.sinks.values():
            sink.close()

    def in_memory(self) -> Arrays:
        """Return the arrays that were kept in memory."""
        return {name: np.concatenate(sink.chunks) for name, sink in self.sinks.items()}


def build(folder: Path, files: DataFiles, snapshot: Snapshot, tokenizer: TextTokenizer) -> bool:
    """Read and tokenize files into the cache entry `folder`; return whether another process did a part of the work.

    A process that finds another one at the same work waits for it, and continues it if the other one has died.

    Raises:
        DataError: The files cannot be read as rows of the task; what was written of the entry is removed.
        OSError: The entry cannot be written. So does RunFolderError.
    """
    with disk_errors(folder, elsewhere=OTHER_CACHE), _unfinished(folder) as place:
        if (folder / MARK).is_file():  # another process was quicker
            shutil.rmtree(place, ignore_errors=True)
            return True
        arrays, resumed = RowArrays(place), (place / JOURNAL).is_file()
        if resumed:
            try:
                arrays.resume()
            except (OSError, ValueError, KeyError, TypeError):
                arrays.close()
                arrays, resumed = RowArrays(place), False
        try:
            fill(arrays, files, snapshot, tokenizer)
        except DataError as error:
            if not isinstance(error, FileGoneError):  # otherwise what was read before is used again
                shutil.rmtree(place, ignore_errors=True)
            raise
        finally:
            arrays.close()
        with cache_entry(folder, mark=MARK) as temporary:
            for file in [path for path in place.iterdir() if path.suffix == ".npy" or path.name == MARK]:
                file.replace(temporary / file.name)
        shutil.rmtree(place, ignore_errors=True)
        return resumed


def fill(arrays: RowArrays, files: DataFiles, snapshot: Snapshot, tokenizer: TextTokenizer) -> dict[str, Any]:
    """Read and tokenize all rows that are not there yet; return the facts about all of them."""
    chunks = read_rows(files, snapshot, arrays.progress)
    with bar(f"tokenizing {files.task} {files.split}", total=_expected(files, snapshot)) as line:
        line.advance(arrays.facts["rows"])
        unnoted: Progress | None = None
        for rows, tokens, progress in _tokenized(chunks, tokenizer):
            if unnoted:  # not after the last chunk, which the complete entry follows at once
                arrays.note(unnoted)
            arrays.append(rows, tokens, files)
            line.advance(len(rows))
            unnoted = progress
    facts = arrays.facts
    _refuse_none(files, facts)
    if facts["labelled_rows"] not in (0, facts["rows"]):
        raise DataError(f"{files.task} {files.split}: some rows have a label in '{files.label}' and some do not.")
    return arrays.finish(len(files.text))


def load_arrays(folder: Path, *, check: bool = True) -> tuple[Arrays, dict[str, Any]]:
    """Map the arrays of a complete entry into memory, and return them with the facts about its rows.

    Args:
        folder: The entry.
        check: Whether all arrays are read once to compare their checksums.

    Raises:
        OSError: Files are missing.
        ValueError: Files hold something else than what was written.
    """
    facts = read_facts(folder / MARK)
    states = facts["arrays"]
    with ThreadPoolExecutor() as pool:  # zlib.crc32 runs without the interpreter's lock
        jobs = {name: pool.submit(load_array, folder / f"{name}.npy", states[name], check=check) for name in states}
        return {name: job.result() for name, job in jobs.items()}, facts


def _tokenized(
    chunks: Iterable[tuple[Rows, Progress]], tokenizer: TextTokenizer
) -> Iterator[tuple[Rows, tuple[Ragged, ...], Progress]]:
    """Tokenize each chunk while the next one is read; the tokenizer itself uses all cores."""
    waiting: tuple[Rows, Progress, Future[tuple[Ragged, ...]]] | None = None
    with ThreadPoolExecutor(1) as pool:
        for rows, progress in chunks:
            job = pool.submit(lambda texts: tuple(map(tokenizer, texts)), rows.texts)
            if waiting:
                yield waiting[0], waiting[2].result(), waiting[1]
            waiting = rows, progress, job
        if waiting:
            yield waiting[0], waiting[2].result(), waiting[1]


def _expected(files: DataFiles, snapshot: Snapshot) -> int:
    """Estimate the rows of files for the progress bar, if there is one."""
    if not (is_shown() and console().is_terminal):
        return 0
    return sum(
        count_rows(str(file), dialect=source.dialect_over(files.dialect))
        for source, found in zip(files.sources, snapshot.paths, strict=True)
        for file in found
    )


def _refuse_none(files: DataFiles, facts: Mapping[str, int]) -> None:
    """Raise DataError if there are no rows."""
    if facts["rows"]:
        return
    names = ", ".join(source.path for source in files.sources)
    lost = facts["dropped"] + facts["unmapped"]
    left_out = f" ({lost} were dropped)" if lost else ""
    marked = f" marked as {files.split} in the column '{files.marked.column}'" if files.marked else ""
    hint = f'Mark some, or set tasks.{files.task}.dev = "10%"' if marked and files.split == "dev" else None
    raise DataError(f"{names}: no rows for {files.task} {files.split}{marked}{left_out}.", hint=hint)


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """Yield the folder in which an entry is built, as soon as no other process builds it there."""
    place = folder.with_name(f".{folder.name}.partial")
    opened = _locked(place)
    try:
        yield place
    finally:
        if opened is not None:
            os.close(opened)


def _locked(place: Path) -> int | None:
    """Make a folder and lock it, after waiting for another process if need be; return what to close."""
    while True:
        place.mkdir(parents=True, exist_ok=True)
        if not locks.AVAILABLE:
            return None
        opened = os.open(place, os.O_RDONLY)
        try:
            if not locks.take_lock(opened):
                return opened
        except BlockingIOError:
            log.info("Another process is reading the same files into the token cache; waiting for it.")
            locks.take_lock(opened, wait=True)
        with suppress(OSError):
            if os.path.samestat(os.fstat(opened), place.stat()):
                return opened
        os.close(opened)  # the other process has finished, and removed the folder
