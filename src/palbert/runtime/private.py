"""Private: files that only their owner can read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from palbert.runtime.files import disk_errors, new_file

MODE = 0o600


@contextmanager
def private_file(path: Path, *, replace: bool = True) -> Iterator[TextIO]:
    """Yield a stream; what is written to it becomes the file as by `new_file`, and only its owner can read it."""
    with new_file(path, replace=replace) as temporary:
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
        with open(opened, "w", encoding="utf-8") as stream:
            temporary.chmod(MODE)  # before the first byte: new_file may have made it with the mode of other files
            yield stream


def make_private_file(path: Path) -> None:
    """Make an empty file that only its owner can read; no-op if there is one."""
    with disk_errors(path):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, MODE))
        except FileExistsError:
            return
