"""Checksums: the SHA-256 of every file of a checkpoint or encoder folder, recorded there and checked on load."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from palbert.errors import CheckpointError
from palbert.runtime.durable import sync_file, sync_folder
from palbert.runtime.files import new_folder, sha256, write_text

RECORD = "palbert.sha256"
"""The file that lists the hashes of the others; `sha256sum --check palbert.sha256` reads it, too."""
LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^\x00-\x1f\x7f]+)")


class Recorder:
    """Hash files in threads while others are written and flushed: hashlib runs without the interpreter's lock."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="checksums")
        self._hashes: dict[str, Future[str]] = {}

    def add(self, path: Path) -> None:
        """Begin to hash a complete file."""
        self._hashes[path.name] = self._threads.submit(sha256, path)

    def finish(self, folder: Path) -> None:
        """Write the record of the added files, and flush them and the folder."""
        for name in self._hashes:
            sync_file(folder / name)
        write_record(folder, {name: found.result() for name, found in self._hashes.items()})
        sync_file(folder / RECORD)
        sync_folder(folder)

    def close(self) -> None:
        """End the threads, also after an error."""
        self._threads.shutdown(cancel_futures=True)


def record_folder(folder: Path) -> None:
    """Write the record of all files that a folder has now."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / RECORD)
    write_record(folder, {path.relative_to(folder).as_posix(): sha256(path) for path in files})


def write_record(folder: Path, hashes: Mapping[str, str]) -> None:
    """Write the record of a folder that will be flushed and get its name as a whole."""
    (folder / RECORD).write_text("".join(f"{found}  {name}\n" for name, found in hashes.items()), encoding="utf-8")


def read_record(folder: Path) -> dict[str, str] | None:
    """Return the hashes of a folder's files by name; None where nothing is recorded, as in earlier versions."""
    path = folder / RECORD
    try:
        lines = path.read_text("utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.", hint=_remedy(path)) from error
    hashes = {}
    for number, line in enumerate(lines, 1):
        found = LINE.fullmatch(line)
        if found is None or ".." in PurePosixPath(found["name"]).parts or found["name"].startswith("/"):
            raise CheckpointError(
                f"{path}, line {number}: damaged: expected a SHA-256, two spaces and the name of a file.",
                hint=_remedy(path),
            )
        hashes[found["name"]] = found["sha256"]
    return hashes


def checked(path: Path) -> Path:
    """Return the path of a file after comparing its content with the record next to it, where there is one.

    A file that is neither there nor recorded is left to the caller.

    Raises:
        CheckpointError: The file has another content than when it was written, or is missing, or was added.
    """
    while (record := read_record(path.parent)) is not None:
        expected, found = record.get(path.name), _sha256(path)
        if found == expected:
            return path
        if read_record(path.parent) == record:  # otherwise the checkpoint has been replaced while it was read
            raise CheckpointError(f"{path}: {_difference(expected, found)}", hint=_remedy(path))
    return path


def check_folder(folder: Path) -> None:
    """Compare all recorded files of a folder at the same time; raise CheckpointError if one is not as recorded."""
    names = list(read_record(folder) or ())
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(checked, [folder / name for name in names if "/" not in name]):
            pass


def add_file(folder: Path, name: str, text: str) -> None:
    """Add a text file to a complete folder, or replace one, together with its record.

    A crash leaves both as they were, or both new: the folder is replaced by one with links to its other files.
    """
    folder = folder.resolve()
    record = read_record(folder)
    if record is None:
        write_text(folder / name, text)
        return
    with new_folder(folder) as temporary:
        others = shutil.ignore_patterns(name, RECORD)
        shutil.copytree(folder, temporary, symlinks=True, ignore=others, copy_function=link_file, dirs_exist_ok=True)
        (temporary / name).write_text(text, encoding="utf-8")
        write_record(temporary, {**record, name: sha256(temporary / name)})


def link_file(source: str | Path, target: str | Path) -> None:
    """Make a hard link, or a copy on a file system without hard links, such as a mounted cloud drive."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _sha256(path: Path) -> str | None:
    """Return the hash of a file, None if there is none."""
    try:
        return sha256(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.", hint=_remedy(path)) from error


def _difference(expected: str | None, found: str | None) -> str:
    if found is None:
        return f"missing, although {RECORD} lists it."
    if expected is None:
        return f"is not listed in {RECORD}, so it was not written with the other files."
    return f"damaged: expected the SHA-256 {expected}, as {RECORD} says, found {found}."


def _remedy(path: Path) -> str:
    """Name the other checkpoints of the run; those that share the file, as hard links, are damaged in the same way."""
    folder = path.parent
    others = [each for each in sorted(folder.parent.glob("[!.]*")) if each != folder and _is_other(each, path)]
    restore = f"Restore the file from a copy; if it was changed on purpose, remove {RECORD}."
    if folder.parent.name != "checkpoints" or not others:
        return restore
    return f"Take another checkpoint of the run with --checkpoint: {', '.join(each.name for each in others)}. {restore}"


def _is_other(folder: Path, path: Path) -> bool:
    """Whether a folder is a checkpoint with a file of its own in place of a damaged one."""
    if not (folder / "palbert.json").is_file():
        return False
    try:
        return not path.samefile(folder / path.name)
    except OSError:
        return True
