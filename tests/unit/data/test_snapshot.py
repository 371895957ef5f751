"""Snapshots: which files a data set has, and whether they are still the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.data.snapshot import Snapshot
from palbert.errors import DataError
from palbert.readers import FileGoneError
from palbert.runtime.files import sha256
from palbert.tasks.sets import DataFiles, files_of
from palbert.tasks.spec import Task


@pytest.fixture
def files(tmp_path: Path) -> DataFiles:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{name},1\n")
    own = {"name": "own", "kind": "single", "target": "number", "text": "text"}
    paths = [str(tmp_path / name) for name in ("b.csv", "a.csv", "b.csv")]
    return files_of(Task.model_validate({**own, "train": paths}), "train")


def test_files_are_hashed_in_the_order_in_which_they_are_read(tmp_path: Path, files: DataFiles) -> None:
    snapshot = Snapshot.of(files)
    a, b = sha256(tmp_path / "a.csv"), sha256(tmp_path / "b.csv")
    assert snapshot.in_order == [b, a, b]
    assert snapshot.hashes == {str(tmp_path / "b.csv"): b, str(tmp_path / "a.csv"): a}
    assert snapshot.bytes == 2 * len("text,label\na,1\n")
    snapshot.check()


def test_a_change_is_noticed_and_a_touch_is_none(tmp_path: Path, files: DataFiles) -> None:
    snapshot = Snapshot.of(files)
    (tmp_path / "a.csv").touch()
    snapshot.check()
    (tmp_path / "a.csv").write_text("text,label\nb,1\n")
    with pytest.raises(DataError, match=r"a\.csv: the file changed"):
        snapshot.check()
    (tmp_path / "a.csv").unlink()
    with pytest.raises(FileGoneError, match=r"a\.csv: the file vanished"):
        snapshot.check()
