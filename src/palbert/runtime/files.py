"""Files: written completely or not at all, CSV that reads back as written, and hashes."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from palbert.errors import RunFolderError

AnyPath = str | os.PathLike[str]
"""A path as text, a Path, or a Run."""


def sha256(*paths: Path) -> str:
    """Hash the content of one or more files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def allow_long_fields() -> None:
    """Let csv read fields above its default limit of 128 KiB."""
    csv.field_size_limit(2**31 - 1)  # the largest limit that every platform accepts


class CSVWriter:
    """Write CSV lines that end with a line feed, and quote carriage returns, which csv.writer would not do then.

    Args:
        stream: A text file opened with `newline=""`, or a buffer.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writer = csv.writer(self, lineterminator="\r\n")  # characters of the terminator are quoted

    def writerow(self, row: Iterable[Any]) -> None:
        """Write one row."""
        self._writer.writerow(row)

    def write(self, line: str) -> None:
        """Take a finished line from csv's writer."""
        self._stream.write(line.removesuffix("\r\n") + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: even after a crash, readers see either the old content or the new."""
    with new_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield a temporary file; it replaces `target` when the block ends without an error."""
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.part")
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder; it replaces `target` when the block ends without an error."""
    with _folder_for(target) as temporary:
        yield temporary
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        temporary.rename(target)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def cache_entry(target: Path, *, mark: str) -> Iterator[Path]:
    """Yield a temporary folder; it becomes the cache entry `target` unless another process made that first.

    Args:
        target: The entry, named by its content. It is not replaced, since others may be reading it.
        mark: A file that every complete entry has; an entry without it is damaged and is replaced.
    """
    with _folder_for(target) as temporary:
        yield temporary
        if target.is_dir() and not (target / mark).is_file():
            shutil.rmtree(target, ignore_errors=True)
        try:
            temporary.rename(target)
        except OSError:
            if not (target / mark).is_file():
                raise


@contextmanager
def _folder_for(target: Path) -> Iterator[Path]:
    """Yield an empty folder next to `target`; remove what is left of it afterwards."""
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        temporary.chmod(0o755)  # mkdtemp hides its folder from others
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Restore the old folder if a crash came between the two renames of `new_folder`."""
    old = target.with_name(f".{target.name}.old")
    if old.exists() and not target.exists():
        old.rename(target)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise RunFolderError for a full or read-only disk."""
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number in (errno.ENOSPC, errno.EDQUOT):
            raise RunFolderError(
                f"{path}: the disk is full; what was there before is untouched.",
                hint="Free some space, or give another folder with --out.",
            ) from error
        if number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
            raise RunFolderError(f"{path}: cannot be written: {os.strerror(number)}.") from error
        raise


def _error_number(error: Exception) -> int | None:
    """Return the system's error number; safetensors and tokenizers only put it into their message."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None
