"""The file layer sees every operation, and the disk after a power loss holds what was flushed and no more."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.soak.disk import VARIANTS, Disk
from tests.soak.operations import Layer, Operation

from palbert.runtime.files import new_folder, write_text

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="finds files by their descriptors in /proc"),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="pathlib keeps its own references to os in Python 3.10"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def seen(root: Path, command: Callable[[], object]) -> list[str]:
    """Return the operations of a command, with the paths below the root."""
    found: list[str] = []

    def note(operation: Operation) -> None:
        found.append(f"{operation.kind} {operation.path.relative_to(root)}")

    with Layer(root, note).installed():
        command()
    return found


def test_operations_are_seen_in_their_order(root: Path) -> None:
    def command() -> None:
        (root / "a").mkdir()
        (root / "a" / "text").write_text("x" * 10)
        with (root / "a" / "text").open("r+b") as stream:
            stream.truncate(3)
            os.fsync(stream.fileno())
        os.replace(root / "a" / "text", root / "b")
        os.link(root / "b", root / "c")
        save_file({"x": torch.zeros(2)}, root / "weights")
        shutil.copyfile(root / "b", root / "d")
        (root / "b").read_text()
        (root.parent / "outside").write_text("elsewhere")
        shutil.rmtree(root / "a")
        os.unlink(root / "c")

    assert seen(root, command) == [
        "mkdir a", "open a/text", "write a/text", "open a/text", "truncate a/text", "fsync a/text",
        "rename b", "link c", "save weights", "open d", "write d", "rmdir a", "unlink c",
    ]  # fmt: skip


def test_an_operation_can_fail_in_place_of_the_system(root: Path) -> None:
    def refuse(operation: Operation) -> None:
        if operation.kind == "write":
            raise OSError(28, "No space left on device")

    with Layer(root, refuse).installed(), pytest.raises(OSError, match="No space left"):
        (root / "text").write_text("x")
    assert (root / "text").read_bytes() == b""


def test_half_of_a_write_can_be_done(root: Path) -> None:
    def tear(operation: Operation) -> None:
        if operation.tear:
            operation.tear()
            raise KeyboardInterrupt

    with (
        Layer(root, tear).installed(),
        pytest.raises(KeyboardInterrupt),
        (root / "text").open("wb", buffering=0) as stream,
    ):
        stream.write(b"abcd")
    with Layer(root, tear).installed(), pytest.raises(KeyboardInterrupt):
        save_file({"x": torch.zeros(100)}, root / "weights")
    assert (root / "text").read_text() == "ab"
    assert 0 < (root / "weights").stat().st_size < 400


def images(root: Path, command: Callable[[], object]) -> dict[str, dict[str, bytes]]:
    """Return what each kind of power loss leaves after a command."""
    disk = Disk(root)
    with Layer(root, lambda operation: None, disk.synced).installed():
        command()
    found = {}
    for variant in VARIANTS:
        target = root.parent / variant
        disk.write_image(target, variant, seed=1)
        found[variant] = {
            str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()
        }
    return found


def test_a_file_that_was_not_flushed_is_lost_at_a_power_loss(root: Path) -> None:
    (root / "text").write_text("old")

    def command() -> None:
        (root / "part").write_text("new and long")
        (root / "part").replace(root / "text")

    found = images(root, command)
    assert found["synced"] == {"text": b"old"}
    assert found["names"] == {"text": b""}
    assert found["zeros"] == {"text": bytes(12)}
    assert b"new and long".startswith(found["torn"]["text"]) and found["torn"].keys() == {"text"}


def test_what_was_appended_without_a_flush_is_lost(root: Path) -> None:
    (root / "log").write_text("one\n")

    def command() -> None:
        with (root / "log").open("a") as stream:
            stream.write("two\n")

    found = images(root, command)
    assert found["synced"] == found["names"] == {"log": b"one\n"}
    assert found["zeros"] == {"log": b"one\n\0\0\0\0"}


def test_a_folder_that_was_not_flushed_has_its_old_entries(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "kept").write_text("x")

    def command() -> None:
        (root / "a" / "kept").rename(root / "a" / "renamed")
        shutil.copyfile(root / "a" / "renamed", root / "a" / "copy")

    found = images(root, command)
    assert found["synced"] == {"a/kept": b"x"}
    assert found["names"] == {"a/renamed": b"x", "a/copy": b""}


def test_what_palbert_writes_is_there_after_every_kind_of_power_loss(root: Path) -> None:
    def command() -> None:
        write_text(root / "a" / "b" / "text", "new")
        with new_folder(root / "folder") as folder:
            (folder / "inside").write_text("whole")

    for variant, found in images(root, command).items():
        assert {name: found.get(name) for name in ("a/b/text", "folder/inside")} == {
            "a/b/text": b"new",
            "folder/inside": b"whole",
        }, variant
