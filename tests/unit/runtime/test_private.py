"""Private files can be read by their owner only, from their first byte on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.runtime.private import make_private_file, private_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs modes of POSIX")


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    """Let new files be readable by everybody."""
    former = os.umask(0)
    yield
    os.umask(former)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_private_file_is_private_before_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with private_file(path) as stream:
        [temporary] = list(path.parent.iterdir())
        assert mode(temporary) == 0o600
        stream.write("ünï\n")
        assert not path.exists()
    assert path.read_text("utf-8") == "ünï\n" and mode(path) == 0o600


def test_a_file_that_others_could_read_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o666)
    with private_file(path) as stream:
        stream.write("new")
    assert path.read_text() == "new" and mode(path) == 0o600


def test_an_error_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), private_file(path) as stream:
        stream.write("new")
        raise ZeroDivisionError
    assert path.read_text() == "old" and [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_an_empty_private_file_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    make_private_file(path)
    assert path.read_bytes() == b"" and mode(path) == 0o600
    path.write_text("content")
    make_private_file(path)
    assert path.read_text() == "content"


def test_a_link_is_not_followed_to_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    make_private_file(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="cannot be written"):
        make_private_file(tmp_path / "file" / "a.txt")
