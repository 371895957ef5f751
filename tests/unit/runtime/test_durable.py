"""What is made is flushed, and its parents too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palbert.runtime.durable import make_folder, sync_appended, sync_tree


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: done.append(os.readlink(f"/proc/self/fd/{number}")))
    return done


def test_every_new_folder_is_flushed_into_its_parent(tmp_path: Path, flushed: list[str]) -> None:
    make_folder(tmp_path / "a" / "b")
    assert set(flushed) == {str(tmp_path), str(tmp_path / "a")}
    flushed.clear()
    make_folder(tmp_path / "a" / "b")
    assert flushed == []


def test_a_tree_is_flushed_with_all_files_before_their_folders(tmp_path: Path, flushed: list[str]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    sync_tree(tmp_path)
    assert flushed == [str(tmp_path / "a" / "file"), str(tmp_path / "a"), str(tmp_path)]


def test_a_log_is_flushed_with_its_entry_and_need_not_be_there(tmp_path: Path, flushed: list[str]) -> None:
    sync_appended(tmp_path / "log")
    assert flushed == []
    (tmp_path / "log").touch()
    sync_appended(tmp_path / "log")
    assert flushed == [str(tmp_path / "log"), str(tmp_path)]
