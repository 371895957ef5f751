"""Checksums: every change is noticed, nothing else is, and the record is never behind the files."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from palbert.errors import CheckpointError
from palbert.runtime import checksums
from palbert.runtime.checksums import (
    RECORD,
    Recorder,
    add_file,
    check_folder,
    checked,
    link_file,
    read_record,
    record_folder,
)
from palbert.runtime.files import sha256

CONTENT = {"a.txt": b"one", "b c.bin": bytes(range(256))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder of two files with their record."""
    folder = tmp_path / "best"
    folder.mkdir()
    with closing(Recorder()) as record:
        for name, content in CONTENT.items():
            (folder / name).write_bytes(content)
            record.add(folder / name)
        record.finish(folder)
    return folder


def test_the_record_has_the_hash_of_every_file(folder: Path) -> None:
    assert read_record(folder) == {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    check_folder(folder)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_sha256sum_reads_the_record(folder: Path) -> None:
    check = ["sha256sum", "--check", "--strict", RECORD]
    assert subprocess.run(check, cwd=folder, capture_output=True, check=False).returncode == 0
    (folder / "a.txt").write_text("two")
    assert subprocess.run(check, cwd=folder, capture_output=True, check=False).returncode == 1


def test_a_digit_that_was_flipped_in_the_record_is_seen_in_the_error(folder: Path) -> None:
    record = (folder / RECORD).read_text()
    found = sha256(folder / "a.txt")
    expected = found[:-1] + ("0" if found[-1] != "0" else "1")
    (folder / RECORD).write_text(record.replace(found, expected))
    with pytest.raises(CheckpointError, match=f"{expected}, as palbert.sha256 says, found {found}"):
        checked(folder / "a.txt")


@pytest.mark.parametrize("byte", range(0, 256, 51))
@pytest.mark.parametrize("bit", [0, 7])
def test_any_flipped_bit_is_an_error_with_place_and_remedy(folder: Path, byte: int, bit: int) -> None:
    content = bytearray(CONTENT["b c.bin"])
    content[byte] ^= 1 << bit
    (folder / "b c.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"best/b c.bin: damaged: expected the SHA-256 .*Restore the file"):
        checked(folder / "b c.bin")
    with pytest.raises(CheckpointError, match=r"b c.bin: damaged"):
        check_folder(folder)
    assert checked(folder / "a.txt") == folder / "a.txt"


def test_any_flipped_bit_in_the_record_is_an_error(folder: Path) -> None:
    content = (folder / RECORD).read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 4
        (folder / RECORD).write_bytes(changed)
        with pytest.raises(CheckpointError):
            for name in CONTENT:
                checked(folder / name)


def test_missing_and_added_files_are_errors(folder: Path) -> None:
    (folder / "a.txt").unlink()
    with pytest.raises(CheckpointError, match=r"a.txt: missing, although palbert.sha256 lists it"):
        checked(folder / "a.txt")
    (folder / "new.json").touch()
    with pytest.raises(CheckpointError, match=r"new.json: is not listed in palbert.sha256"):
        checked(folder / "new.json")
    assert checked(folder / "neither") == folder / "neither"


def test_a_folder_without_a_record_is_not_checked(folder: Path) -> None:
    (folder / RECORD).unlink()
    (folder / "a.txt").write_text("two")
    assert read_record(folder) is None
    assert checked(folder / "a.txt") == folder / "a.txt"
    check_folder(folder)


def test_a_file_that_cannot_be_read_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checksums, "sha256", fail)
    with pytest.raises(CheckpointError, match=r"a.txt: cannot be read: .*Input/output error"):
        checked(folder / "a.txt")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a\0txt", "a\x1b[31m.txt"])
def test_a_record_names_files_of_its_own_folder_only(folder: Path, name: str) -> None:
    (folder / RECORD).write_text(f"{'0' * 64}  {name}\n")
    with pytest.raises(CheckpointError, match=r"palbert.sha256, line 1: damaged"):
        check_folder(folder)


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_not_called_damaged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_first(path: Path) -> str:
        monkeypatch.setattr(checksums, "sha256", sha256)
        path.write_text("two")
        record_folder(folder)
        return sha256(path)

    monkeypatch.setattr(checksums, "sha256", replace_first)
    assert checked(folder / "a.txt").read_text() == "two"


@pytest.mark.parametrize("name", ["a.txt", "new.json"])
def test_an_added_file_is_in_the_record(folder: Path, name: str) -> None:
    (folder / "notes.txt").write_text("mine")
    before = (folder / "b c.bin").stat().st_ino
    add_file(folder, name, "text")
    check_folder(folder)
    assert (folder / name).read_text() == "text" and name in (read_record(folder) or {})
    assert (folder / "b c.bin").stat().st_ino == before
    assert (folder / "notes.txt").read_text() == "mine"
    assert [path.name for path in folder.parent.iterdir()] == ["best"]


def test_a_crash_while_a_file_is_added_leaves_the_old_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checksums, "write_record", fail)
    with pytest.raises(KeyboardInterrupt):
        add_file(folder, "new.json", "text")
    assert not (folder / "new.json").exists()
    check_folder(folder)


def test_a_file_is_added_to_a_folder_of_an_earlier_version(folder: Path) -> None:
    (folder / RECORD).unlink()
    add_file(folder, "new.json", "text")
    assert (folder / "new.json").read_text() == "text" and read_record(folder) is None


def test_a_link_is_a_copy_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("one")
    link_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").samefile(tmp_path / "a")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    link_file(tmp_path / "a", tmp_path / "c")
    assert (tmp_path / "c").read_text() == "one" and not (tmp_path / "c").samefile(tmp_path / "a")


def test_files_in_folders_are_recorded_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    record_folder(tmp_path)
    assert list(read_record(tmp_path) or {}) == ["1_Pooling/config.json"]
    check_folder(tmp_path)
