"""Files are written completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.runtime.files import (
    cache_entry,
    cache_folder,
    disk_errors,
    new_file,
    new_folder,
    recover_folder,
    refuse_to_replace,
    remove,
    sha256,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("size", [0, 5, (1 << 20) + 1])
def test_a_hash_is_that_of_the_content(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"x" * size)
    assert sha256(tmp_path / "a") == hashlib.sha256(b"x" * size).hexdigest()


def test_text_is_written_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    write_text(path, "ünï\n")
    write_text(path, "中文\n")
    assert path.read_bytes() == "中文\n".encode()
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    write_text(tmp_path / "a.txt", "old")

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync" if function == "fsync" else "pathlib.Path.replace", fail)
    with pytest.raises(RunFolderError, match="the disk is full"):
        write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_new_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    with new_folder(target) as folder:
        (folder / "a").write_text("1")
        assert not target.exists()
    assert (target / "a").read_text() == "1"
    assert names(target.parent) == ["target"]
    assert target.stat().st_mode & 0o777 == 0o755


def test_an_entry_made_by_another_process_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "entry"
    with cache_entry(target, mark="a") as mine:
        (mine / "a").write_text("mine")
        with cache_entry(target, mark="a") as theirs:
            (theirs / "a").write_text("theirs")
        reader = (target / "a").open()
    with reader:
        assert reader.read() == "theirs" == (target / "a").read_text()
    assert names(tmp_path) == ["entry"]


def test_an_entry_without_its_mark_is_made_again(tmp_path: Path) -> None:
    target = tmp_path / "entry"
    target.mkdir()
    (target / "rest").write_text("0")
    with cache_entry(target, mark="a") as folder:
        (folder / "a").write_text("1")
    assert names(target) == ["a"] and names(tmp_path) == ["entry"]


def test_a_new_folder_replaces_the_old_one_completely(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for name in ("old", "new"):
        with new_folder(target) as folder:
            (folder / name).touch()
    assert names(target) == ["new"]
    assert names(tmp_path) == ["target"]


def test_the_old_folder_is_kept_until_the_new_one_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    with new_folder(target) as folder:
        (folder / "old").touch()
    rename = Path.rename

    def lose_power(self: Path, other: Path) -> Path:
        if other == target:
            raise RuntimeError("power cut")
        return rename(self, other)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lose_power)
        with pytest.raises(RuntimeError, match="power cut"), new_folder(target):
            pass
    recover_folder(target)
    assert names(target) == ["old"]


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_failed_new_folder_keeps_the_old_one(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "target"
    with new_folder(target) as folder:
        (folder / "old").touch()
    with pytest.raises(type(error)), new_folder(target) as folder:
        (folder / "new").touch()
        raise error
    assert names(target) == ["old"]
    assert names(tmp_path) == ["target"]


def test_a_crash_between_the_renames_is_repaired(tmp_path: Path) -> None:
    old = tmp_path / ".target.old"
    old.mkdir()
    (old / "a").touch()
    recover_folder(tmp_path / "target")
    assert names(tmp_path / "target") == ["a"]
    assert not old.exists()


def test_recovering_ignores_what_another_process_has_just_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".run.0123456789ab.old").symlink_to(tmp_path / "gone")  # its stat() fails as that of a renamed one
    (tmp_path / ".run.ba9876543210.old").mkdir()
    (tmp_path / ".run.ba9876543210.old" / "a").touch()
    recover_folder(tmp_path / "run")
    assert (tmp_path / "run" / "a").is_file()


def test_recovering_keeps_an_existing_folder(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / ".target.old").mkdir()
    (tmp_path / "target" / "new").touch()
    recover_folder(tmp_path / "target")
    recover_folder(tmp_path / "absent")
    assert names(tmp_path / "target") == ["new"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_reported(tmp_path: Path, number: int) -> None:
    with pytest.raises(RunFolderError, match=r"the disk is full.*--out"), disk_errors(tmp_path):
        raise OSError(number, os.strerror(number))


def test_a_full_disk_of_a_cache_is_reported_with_how_to_move_it(tmp_path: Path) -> None:
    with (
        pytest.raises(RunFolderError, match=r"the disk is full.*PALBERT_CACHE") as caught,
        cache_entry(tmp_path / "entry", mark="a"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "--out" not in str(caught.value)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR])
def test_an_unwritable_folder_is_reported(tmp_path: Path, number: int) -> None:
    with pytest.raises(RunFolderError, match=f"cannot be written: {os.strerror(number)}"), disk_errors(tmp_path):
        raise OSError(number, os.strerror(number))


def test_an_error_number_hidden_in_a_message_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="the disk is full"), disk_errors(tmp_path):
        raise RuntimeError("I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("error", [OSError(errno.EPIPE, "Broken pipe"), KeyError("a"), RuntimeError("os error 28")])
def test_other_errors_are_not_changed(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, disk_errors(tmp_path):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        (errno.EFBIG, "larger than"),
        (errno.EIO, "the disk reports an error"),
        (errno.ENAMETOOLONG, "longer than the file system allows"),
        (errno.EISDIR, "found a folder"),
        (errno.ELOOP, "in a circle"),
        (errno.EMFILE, "too many files"),
    ],
)
def test_what_the_file_system_refuses_is_reported_with_a_remedy(tmp_path: Path, number: int, problem: str) -> None:
    with pytest.raises(RunFolderError, match=problem) as caught, disk_errors(tmp_path / "a"):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path / "a") in caught.value.message and caught.value.hint


def test_names_as_long_as_the_file_system_allows_are_written(tmp_path: Path) -> None:
    write_text(tmp_path / ("ä" * 125 + ".txt"), "long")
    with pytest.raises(RunFolderError, match="longer than the file system allows"):
        write_text(tmp_path / ("a" * 256), "too long")
    assert names(tmp_path) == ["ä" * 125 + ".txt"]


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    with new_file(target) as first, first.open("w") as one:
        one.write("1" * 10)
        with new_file(target) as second, second.open("w") as other:
            other.write("2" * 100)
        assert target.read_text() == "2" * 100
        one.write("1" * 10)
    assert target.read_text() == "1" * 20
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("links", [True, False])
def test_the_first_of_two_writers_stays_where_nothing_may_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    target = tmp_path / "a.csv"
    with pytest.raises(RunFolderError, match=r"a\.csv: already exists\. Add --force"), new_file(target, replace=False):
        write_text(target, "first", replace=False)
    assert target.read_text() == "first" and names(tmp_path) == ["a.csv"]
    refuse_to_replace(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to("nowhere")
    with pytest.raises(RunFolderError, match="already exists"):
        refuse_to_replace(tmp_path / "b.csv")


def test_two_writers_of_one_folder_leave_one_of_the_two(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with new_folder(target) as first:
        (first / "first").touch()
        with new_folder(target) as second:
            (second / "second").touch()
    assert names(target) == ["first"] and names(tmp_path) == ["target"]


def test_the_first_of_two_writers_of_a_folder_stays_where_nothing_may_be_replaced(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()  # an empty folder is no obstacle
    with (
        pytest.raises(RunFolderError, match=r"target: already exists\. Add --force"),
        new_folder(target, replace=False) as second,
    ):
        (second / "second").touch()
        with new_folder(target, replace=False) as first:
            (first / "first").touch()
    assert names(target) == ["first"] and names(tmp_path) == ["target"]


def test_what_a_killed_writer_left_is_removed_by_the_next_one_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    (tmp_path / ".a.txt.0123456789ab.part").write_text("killed")
    os.utime(tmp_path / ".a.txt.0123456789ab.part", (0, 0))
    (tmp_path / ".a.txt.part").write_text("somebody else's")
    (tmp_path / ".b.txt.0123456789ab.part").write_text("of another file")
    with new_file(tmp_path / "a.txt") as living, living.open("w") as stream:
        stream.write("1")
        os.utime(living, (0, 0))
        write_text(tmp_path / "a.txt", "2")
        assert living.exists()
    assert names(tmp_path) == [".a.txt.part", ".b.txt.0123456789ab.part", "a.txt"]


def test_a_file_is_flushed_before_it_is_renamed_and_its_folder_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def flushed(number: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{number}")).suffix or "folder")
        fsync(number)

    def renamed(self: Path, target: Path) -> Path:
        done.append("renamed")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    write_text(tmp_path / "a.txt", "1")
    assert done[-3:] == [".part", "renamed", "folder"]


def test_a_folder_that_cannot_be_flushed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def files_only(number: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{number}"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(number)

    monkeypatch.setattr(os, "fsync", files_only)
    write_text(tmp_path / "a.txt", "1")
    with new_folder(tmp_path / "folder") as folder:
        (folder / "a").touch()
    assert names(tmp_path) == ["a.txt", "folder"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PALBERT_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/palbert"),
        ({"HOME": "/c"}, "/c/.cache/palbert"),
    ],
)
def test_the_environment_chooses_the_folder_of_the_cache(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("PALBERT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_a_file_whose_name_is_not_utf8_is_written(tmp_path: Path) -> None:
    target = tmp_path / os.fsdecode(b"na\xefve.csv")
    write_text(target, "first")
    write_text(target, "second")
    assert target.read_text("utf-8") == "second" and [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_file_or_a_tree_is_removed_if_it_is_there(tmp_path: Path) -> None:
    write_text(tmp_path / "folder" / "deeper" / "a", "x")
    write_text(tmp_path / "b", "x")
    for _ in range(2):
        remove(tmp_path / "folder", tree=True)
        remove(tmp_path / "b")
    assert names(tmp_path) == []


@pytest.mark.parametrize("tree", [False, True])
def test_what_cannot_be_removed_is_an_error_with_its_place(
    tree: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "folder" / "a", "x")
    path = tmp_path / "folder" if tree else tmp_path / "folder" / "a"

    def fail(*arguments: object, **settings: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(RunFolderError, match=rf"^{path}: cannot be removed completely: Input/output error.*yourself"):
        remove(path, tree=tree)


def test_a_folder_is_not_removed_in_place_of_a_file(tmp_path: Path) -> None:
    write_text(tmp_path / "report.json" / "precious", "x")
    with pytest.raises(RunFolderError, match=r"report.json: cannot be removed"):
        remove(tmp_path / "report.json")
    assert (tmp_path / "report.json" / "precious").is_file()
