"""Durable: what is written survives a power loss, as far as the file system can promise it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EACCES}
"""What file systems and platforms answer that cannot flush a folder."""


def sync_file(path: Path) -> None:
    """Flush a file's content to the disk."""
    opened = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync_appended(path: Path) -> None:
    """Flush a file that was made or appended to, and its entry in its folder; no-op if there is none."""
    if path.is_file():
        sync_file(path)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to the disk: files made, renamed and removed in it; no-op where that is impossible."""
    if sys.platform == "win32":
        return
    try:
        opened = os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return
        raise
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(opened)


def sync_tree(folder: Path) -> None:
    """Flush all files and folders of a folder, and the folder itself."""
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            sync_file(Path(place, name))
        sync_folder(Path(place))


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, and flush every new entry."""
    if folder.is_dir():
        return
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)
