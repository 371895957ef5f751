"""The disk as it is found after a power loss: only what was flushed is sure to be there."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

VARIANTS = ("synced", "names", "torn", "zeros", "mixed")
"""What a power loss leaves of what was not flushed, by name.

synced: nothing. names: files made, renamed and removed, but not their content. torn: the same, and the first part of
the content. zeros: the same, with zeros in place of the content. mixed: a random choice of these for each.
"""


@dataclass
class _Flushed:
    """What the disk is sure to have of a file or folder."""

    content: bytes | None = None
    entries: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """The number of each entry of a folder, and whether it is a folder."""
    times: tuple[int, int] | None = None


class Disk:
    """Follows what a process flushes below a folder.

    Args:
        root: The folder; all that it holds now is flushed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.number = root.stat().st_ino
        self.flushed: dict[int, _Flushed] = {}
        self._held: dict[int, int] = {}
        for place, _, files in os.walk(root):
            self._flush(Path(place))
            for name in files:
                self._flush(Path(place, name))

    def synced(self, descriptor: int) -> None:
        """Note that a file or folder was flushed."""
        self._flush(Path(f"/proc/self/fd/{descriptor}"))

    def _flush(self, path: Path) -> None:
        status = path.stat()
        found = _Flushed(times=(status.st_atime_ns, status.st_mtime_ns))
        if path.is_dir():
            for name, entry in _entries(path).items():
                self._hold(path / name, entry[0])
                found.entries[name] = entry
        else:
            found.content = path.read_bytes()
        self._hold(path, status.st_ino)
        self.flushed[status.st_ino] = found

    def _hold(self, path: Path, number: int) -> None:
        """Keep a removed file's number from being given to another file."""
        if number not in self._held:
            self._held[number] = os.open(path, os.O_PATH | os.O_NOFOLLOW)

    def write_image(self, target: Path, variant: str, seed: int) -> None:
        """Write the folder as it is found when the power fails now."""
        _Image(self, variant, random.Random(seed)).folder(self.number, self.root, target)


class _Image:
    """Writes what is left."""

    def __init__(self, disk: Disk, variant: str, chance: random.Random) -> None:
        self.disk, self.variant, self.chance = disk, variant, chance
        self.files: dict[int, Path] = {}

    def folder(self, number: int, now: Path | None, target: Path) -> None:
        """Write a folder; `now` is where it is at the moment, if it is anywhere."""
        target.mkdir()
        flushed = self.disk.flushed.get(number, _Flushed())
        current = _entries(now) if now else {}
        for name in sorted(flushed.entries.keys() | current.keys()):
            old, new = flushed.entries.get(name), current.get(name)
            survives = self.variant != "synced" and (self.variant != "mixed" or self.chance.random() < 0.5)
            entry = new if survives or old == new else old
            if entry is None:
                continue
            there = now / name if now and entry == new else self._find(entry[0])
            if entry[1]:
                self.folder(entry[0], there, target / name)
            else:
                self._file(entry[0], there, target / name)
        self._date(number, now, target)

    def _find(self, number: int) -> Path | None:
        """Return where a file or folder is at the moment that the disk still knows by its former name."""
        for place, folders, files in os.walk(self.disk.root):
            for name in (*folders, *files):
                if os.lstat(os.path.join(place, name)).st_ino == number:
                    return Path(place, name)
        return None

    def _file(self, number: int, now: Path | None, target: Path) -> None:
        if number in self.files:
            os.link(self.files[number], target)
            return
        self.files[number] = target
        old = self.disk.flushed[number].content if number in self.disk.flushed else None
        new = now.read_bytes() if now else None
        target.write_bytes(self._content(old, new))
        self._date(number, now, target)

    def _content(self, old: bytes | None, new: bytes | None) -> bytes:
        """Return what is left of a file whose flushed content is `old` and whose content is `new`."""
        if new is None or old == new:
            return old or b""
        variant = self.variant
        if variant == "mixed":
            variant = self.chance.choice(("names", "torn", "zeros", "whole"))
        kept = len(old) if old and new.startswith(old) else 0
        if variant == "whole":
            return new
        if variant == "torn":
            return new[: self.chance.randint(kept, len(new))]
        if variant == "zeros":
            return new[:kept] + bytes(len(new) - kept)
        return old or b""

    def _date(self, number: int, now: Path | None, target: Path) -> None:
        flushed = self.disk.flushed.get(number)
        status = now.stat() if now else None
        times = (status.st_atime_ns, status.st_mtime_ns) if status else flushed.times if flushed else None
        if times:
            os.utime(target, ns=times)


def _entries(folder: Path) -> dict[str, tuple[int, bool]]:
    with os.scandir(folder) as found:
        return {entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in found}
