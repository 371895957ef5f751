"""Rows are read chunk by chunk, and reading can start anywhere between two chunks."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from palbert.data import rows as module
from palbert.data.rows import Progress, read_rows
from palbert.data.snapshot import Snapshot
from palbert.errors import DataError
from palbert.readers import FileGoneError
from palbert.tasks.sets import DataFiles, files_of
from palbert.tasks.spec import Task


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFiles:
    monkeypatch.setattr(module, "CHUNK", 2)
    for name in ("one", "two"):
        lines = [f"{name} {number}\t{number},5" for number in range(5)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["text\tlabel", *lines]))
    paths = [str(tmp_path / "one.tsv"), str(tmp_path / "two.tsv")]
    own = {"name": "own", "kind": "single", "target": "number", "text": "text", "train": paths}
    return files_of(Task.model_validate(own), "train")


def test_reading_continues_after_every_chunk(files: DataFiles) -> None:
    chunks = list(read_rows(files, Snapshot.of(files), Progress()))
    assert [len(rows) for rows, _ in chunks] == [2, 2, 1, 2, 2, 1]
    for number, (_, progress) in enumerate(chunks, 1):
        assert list(read_rows(files, Snapshot.of(files), progress)) == chunks[number:]


def test_how_far_labels_are_apart_is_learned_from_the_chunks_before_too(tmp_path: Path, files: DataFiles) -> None:
    (tmp_path / "one.tsv").write_text("\n".join(["text\tlabel", "a\t1700000001", "b\t1700000001", "c\t1700000002"]))
    snapshot = Snapshot.of(files)
    progress = next(read_rows(files, snapshot, Progress()))[1]
    with pytest.raises(DataError, match="too close to each other"):
        list(read_rows(files, snapshot, progress))


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, files: DataFiles) -> None:
    snapshot = Snapshot.of(files)
    reading = read_rows(files, snapshot, Progress())
    next(reading)
    (tmp_path / "two.tsv").write_text("text\tlabel\nother\t1,5\n")
    with pytest.raises(DataError, match=r"two\.tsv: the file changed while it was read"):
        list(reading)


def test_a_change_that_breaks_a_file_is_named_before_what_it_broke(tmp_path: Path, files: DataFiles) -> None:
    snapshot = Snapshot.of(files)
    reading = read_rows(files, snapshot, Progress())
    next(reading)
    (tmp_path / "two.tsv").write_text("no header")
    with pytest.raises(DataError, match="changed while it was read"):
        list(reading)


def test_a_file_that_is_written_again_with_the_same_content_is_read(tmp_path: Path, files: DataFiles) -> None:
    snapshot = Snapshot.of(files)
    content = (tmp_path / "two.tsv").read_text()
    (tmp_path / "two.tsv").unlink()
    (tmp_path / "two.tsv").write_text(content)
    assert len(list(read_rows(files, snapshot, Progress()))) == 6


def test_a_file_that_vanishes_is_refused_with_its_name(tmp_path: Path, files: DataFiles) -> None:
    snapshot = Snapshot.of(files)
    reading = read_rows(files, snapshot, Progress())
    next(reading)
    (tmp_path / "two.tsv").unlink()
    with pytest.raises(FileGoneError, match=r"two\.tsv: the file vanished while it was read"):
        list(reading)


def test_a_file_that_cannot_be_read_is_no_matter_of_the_cache(
    files: DataFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Path, *_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))

    snapshot = Snapshot.of(files)
    monkeypatch.setattr(Path, "open", broken)
    with pytest.raises(FileGoneError, match=r"one\.tsv: cannot be read: Input/output error"):
        list(read_rows(files, snapshot, Progress()))


def test_the_decimal_sign_is_learned_from_the_chunks_before_too(tmp_path: Path, files: DataFiles) -> None:
    rows = ["text\tlabel", "a\t1.5", "b\t2", "c\t3", "d\t4,5"]
    (tmp_path / "one.tsv").write_text("\n".join(rows))
    progress = next(read_rows(files, Snapshot.of(files), Progress()))[1]
    with pytest.raises(DataError, match="one decimal sign"):
        list(read_rows(files, Snapshot.of(files), progress))
