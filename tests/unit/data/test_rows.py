"""Rows are read chunk by chunk, and reading can start anywhere between two chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.data import rows as module
from palbert.data.rows import Progress, read_rows
from palbert.errors import DataError
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
    chunks = list(read_rows(files, Progress()))
    assert [len(rows) for rows, _ in chunks] == [2, 2, 1, 2, 2, 1]
    for number, (_, progress) in enumerate(chunks, 1):
        assert list(read_rows(files, progress)) == chunks[number:]


def test_the_decimal_sign_is_learned_from_the_chunks_before_too(tmp_path: Path, files: DataFiles) -> None:
    rows = ["text\tlabel", "a\t1.5", "b\t2", "c\t3", "d\t4,5"]
    (tmp_path / "one.tsv").write_text("\n".join(rows))
    progress = next(read_rows(files, Progress()))[1]
    with pytest.raises(DataError, match="one decimal sign"):
        list(read_rows(files, progress))
