"""Snapshot: the files of a data set as they are when their content is hashed; they must stay so until they are read."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from palbert.errors import DataError
from palbert.readers import FileGoneError, resolve_files
from palbert.runtime.files import sha256
from palbert.tasks.sets import DataFiles

State = tuple[int, ...]
"""Size, time of change and inode of a file: at least one of them differs after the file was written again."""


@dataclass(frozen=True)
class Snapshot:
    """The files of a data set, and what they hold."""

    paths: tuple[tuple[Path, ...], ...]
    """The files of each source."""
    hashes: dict[str, str]
    """sha256 of each file."""
    states: dict[str, State | None]
    """The state of each file just before it was hashed."""

    @classmethod
    def of(cls, files: DataFiles) -> Snapshot:
        """Find the files of all sources, and hash them; several are read at a time."""
        paths = tuple(tuple(resolve_files(source.path)) for source in files.sources)
        listed = list(dict.fromkeys(path for each in paths for path in each))
        states = {str(path): _state(path) for path in listed}
        with ThreadPoolExecutor() as pool:
            hashes = dict(zip(map(str, listed), pool.map(sha256, listed), strict=True))
        return cls(paths, hashes, states)

    @property
    def in_order(self) -> list[str]:
        """The hashes of the files in the order in which they are read, files that occur twice included."""
        return [self.hashes[str(path)] for each in self.paths for path in each]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(state[0] for state in self.states.values() if state)

    def check(self) -> None:
        """Raise DataError if the content of a file is no longer what was hashed."""
        for name, state in self.states.items():
            now = _state(Path(name))
            if now == state:
                continue
            if now is None:
                raise FileGoneError(f"{name}: the file vanished while it was read.", hint="Put it back; start again.")
            if sha256(Path(name)) != self.hashes[name]:
                raise DataError(
                    f"{name}: the file changed while it was read.", hint="Start again when nobody writes it any more."
                )


def _state(path: Path) -> State | None:
    with suppress(FileNotFoundError):
        found = os.stat(path)
        return found.st_size, found.st_mtime_ns, found.st_ino
    return None
