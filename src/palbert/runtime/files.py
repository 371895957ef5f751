"""Files: written completely or not at all, and hashes."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from palbert.errors import RunFolderError
from palbert.runtime import locks
from palbert.runtime.durable import make_folder, sync_file, sync_folder, sync_tree

PART, OLD = ".part", ".old"
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.(part|old)|\..+\.(part|old)")
"""Names of what is being written or replaced; those of earlier versions have no number."""
SETTLED = 10
"""Seconds after which a writer has locked what it began to write."""
UNTOUCHED = "what was there before is untouched"
FULL = (f"the disk is full; {UNTOUCHED}.", "Free some space, or {elsewhere}.")
REFUSED = (None, None)
PROBLEMS: dict[int, tuple[str | None, str | None]] = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EACCES: REFUSED,
    errno.EPERM: REFUSED,
    errno.EROFS: REFUSED,
    errno.ENOTDIR: REFUSED,
    errno.EFBIG: (
        f"the file is larger than the file system or the shell's limit allows; {UNTOUCHED}.",
        "Raise the limit (ulimit -f unlimited), or write to another file system.",
    ),
    errno.EIO: (f"the disk reports an error; {UNTOUCHED}.", "Check the disk (dmesg), or write to another one."),
    errno.ENAMETOOLONG: ("the name is longer than the file system allows.", "Give a shorter name or path."),
    errno.EISDIR: ("expected a file, found a folder of this name.", "Give the name of a file."),
    errno.ELOOP: ("the path leads through symbolic links in a circle.", "Remove the circle, or give another path."),
    errno.EMFILE: (
        f"too many files are open in this process; {UNTOUCHED}.",
        "Raise the limit (ulimit -n 4096), and start again; a run continues with --resume.",
    ),
    errno.ENFILE: (f"too many files are open on this machine; {UNTOUCHED}.", "End other programs, and start again."),
}
"""What went wrong and what to do, by the system's error number."""
OTHER_OUT, OTHER_CACHE = (
    "give another folder with --out",
    "name another folder in the environment variable PALBERT_CACHE",
)
"""How users have something written elsewhere."""

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


def cache_folder() -> Path:
    """Return where caches are kept: $PALBERT_CACHE, or palbert in the user's cache folder."""
    if chosen := os.environ.get("PALBERT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "palbert"


def write_text(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a file atomically: even after a power loss, readers see either the old content or the new."""
    with new_file(path, replace=replace) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)


@contextmanager
def new_file(target: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary file; it becomes `target`, flushed to the disk, when the block ends without an error.

    Several processes may write one target at the same time: each writes its own temporary file, and the last one stays.

    Args:
        target: The file to write.
        replace: Whether a file that has the name by then is replaced. Otherwise that one stays, RunFolderError is
            raised, and of several processes the first one succeeds.
    """
    with disk_errors(target):
        make_folder(target.parent)
        remove_abandoned(target.parent, name=target.name)
        temporary = _temporary(target, PART)
        with _held(temporary):
            try:
                yield temporary
                sync_file(temporary)
                if replace:
                    temporary.replace(target)
                else:
                    _take_free_name(temporary, target)
                sync_folder(target.parent)
            finally:
                temporary.unlink(missing_ok=True)


def refuse_to_replace(target: Path) -> None:
    """Raise RunFolderError if a name is taken; `new_file` finds out too, but only when the work is done."""
    if os.path.lexists(target):
        raise RunFolderError(f"{target}: already exists.", hint="Add --force to replace it.")


def _take_free_name(temporary: Path, target: Path) -> None:
    """Rename a file as `rename` does on Windows only: not to a name that another file has."""
    try:
        os.link(temporary, target)
    except OSError:  # the name is taken, or the file system has no hard links
        refuse_to_replace(target)
        temporary.rename(target)
    else:
        temporary.unlink()


@contextmanager
def new_folder(
    target: Path, *, former: Path | None = None, flush: Callable[[Path], None] = sync_tree, replace: bool = True
) -> Iterator[Path]:
    """Yield a temporary folder; it replaces `target`, flushed to the disk, when the block ends without an error.

    Args:
        target: The folder to make or replace.
        former: Where the replaced folder is kept, next to `target`, in place of what is there; without it, the
            replaced folder is removed.
        flush: Completes the new folder and flushes all of it.
        replace: As for `new_file`; an empty folder is replaced in any case.
    """
    with _folder_for(target) as temporary:
        yield temporary
        flush(temporary)
        while not _exchange(temporary, target, former, replace=replace):
            if not replace:
                refuse_to_replace(target)
        sync_folder(target.parent)
        for each in _old_ones(former or target):
            shutil.rmtree(each, ignore_errors=True)


def _exchange(temporary: Path, target: Path, former: Path | None, *, replace: bool) -> bool:
    """Put a folder in the place of another one; return False if there is one again, or still.

    A crash at any point leaves what `recover_folder` restores.
    """
    try:
        if former and target.is_dir():
            move_away(former)
            target.rename(former)
        elif replace:
            move_away(target)
        else:
            with suppress(OSError):
                target.rmdir()
        temporary.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        recover_folder(target, former=former)
        raise
    return True


@contextmanager
def cache_entry(target: Path, *, mark: str) -> Iterator[Path]:
    """Yield a temporary folder; it becomes the cache entry `target` unless another process made that first.

    Args:
        target: The entry, named by its content. It is not replaced, since others may be reading it.
        mark: A file that every complete entry has; an entry without it is damaged and is replaced.
    """
    with _folder_for(target, elsewhere=OTHER_CACHE) as temporary:
        yield temporary
        sync_tree(temporary)
        if target.is_dir() and not (target / mark).is_file():
            shutil.rmtree(target, ignore_errors=True)
        try:
            temporary.rename(target)
        except OSError:
            if not (target / mark).is_file():
                raise
        sync_folder(target.parent)


@contextmanager
def _folder_for(target: Path, *, elsewhere: str = OTHER_OUT) -> Iterator[Path]:
    """Yield an empty folder next to `target`; remove what is left of it afterwards."""
    with disk_errors(target, elsewhere=elsewhere):
        make_folder(target.parent)
        remove_abandoned(target.parent, name=target.name)
        temporary = _temporary(target, PART)
        temporary.mkdir(0o755)
        with _held(temporary):
            try:
                yield temporary
            finally:
                shutil.rmtree(temporary, ignore_errors=True)


def move_away(target: Path) -> None:
    """Move a folder to where `recover_folder` finds it, so that another one can take its place."""
    with suppress(FileNotFoundError):
        target.rename(_temporary(target, OLD))


def recover_folder(target: Path, *, former: Path | None = None) -> None:
    """Restore the old folder if a crash came between the renames of `new_folder`, which kept it as `former`."""
    if former:
        recover_folder(former)
    for old in () if target.exists() else [*_old_ones(target), *([former] if former else [])]:  # the newest first
        with suppress(OSError):  # another process was quicker
            old.rename(target)
            sync_folder(target.parent)
            break
    if former:
        recover_folder(former)


def recover_folders(parent: Path) -> None:
    """Restore all folders of a folder that a crash left moved away, and remove what is left of killed writers."""
    for old in parent.glob(f".*{OLD}"):
        recover_folder(old.with_name(re.sub(rf"(\.[0-9a-f]{{12}})?\{OLD}$", "", old.name[1:])))
    for old in parent.glob(f".*{OLD}"):
        shutil.rmtree(old, ignore_errors=True)
    remove_abandoned(parent)


def is_temporary(name: str) -> bool:
    """Whether a name is one that palbert gives to what it has not finished writing."""
    return TEMPORARY.fullmatch(name) is not None


def remove_abandoned(folder: Path, *, name: str | None = None) -> None:
    """Remove what killed processes had begun to write in a folder, of one target if its name is given.

    A writer holds a lock on what it writes, which ends with the writer. Where there are no locks, nothing is removed.
    """
    target = re.escape(_shortened(name)) if name else ".+"
    own = re.compile(rf"\.{target}\.[0-9a-f]{{12}}\{PART}")
    for path in list(folder.iterdir()) if locks.AVAILABLE else ():
        if own.fullmatch(path.name) and _is_abandoned(path):
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    try:
        opened = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        if time.time() - os.fstat(opened).st_mtime < SETTLED:  # its writer may be about to lock it
            return False
        return locks.take_lock(opened)
    except OSError:  # its writer is alive
        return False
    finally:
        os.close(opened)


@contextmanager
def _held(temporary: Path) -> Iterator[None]:
    """Hold a lock on a temporary file or folder, which is made if needed, so that others know that it is in use."""
    flags = os.O_RDONLY if temporary.is_dir() else os.O_RDWR | os.O_CREAT
    opened = os.open(temporary, flags, 0o666) if locks.AVAILABLE else None
    try:
        if opened is not None:
            with suppress(BlockingIOError):
                locks.take_lock(opened)
        yield
    finally:
        if opened is not None:
            os.close(opened)


def _temporary(target: Path, suffix: str) -> Path:
    """Return a name next to `target` that no other writer uses."""
    return target.with_name(f".{_shortened(target.name)}.{secrets.token_hex(6)}{suffix}")


def _shortened(name: str) -> str:
    """Return the start of a name: with what is added to it, it must not become longer than file systems allow."""
    return os.fsencode(name)[:200].decode(errors="ignore")  # names may hold bytes that are not UTF-8


def _old_ones(target: Path) -> list[Path]:
    """Return where `new_folder` has moved a target, the newest first; without a number, as earlier versions did."""
    name = re.escape(_shortened(target.name))
    pattern = re.compile(rf"\.{name}(\.[0-9a-f]{{12}})?\{OLD}")
    parent = target.parent
    found = [path for path in parent.iterdir() if pattern.fullmatch(path.name)] if parent.is_dir() else []
    return sorted(found, key=_time_of_change, reverse=True)


def _time_of_change(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process has just moved or removed it
        return 0.0


@contextmanager
def disk_errors(path: Path, *, elsewhere: str = OTHER_OUT) -> Iterator[None]:
    """Raise RunFolderError for what the disk or the file system refuses, with how to write elsewhere."""
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number is None or number not in PROBLEMS:
            raise
        problem, hint = PROBLEMS[number]
        hint = hint and hint.format(elsewhere=elsewhere)
        raise RunFolderError(f"{path}: {problem or f'cannot be written: {os.strerror(number)}.'}", hint=hint) from error


def remove(path: Path, *, tree: bool = False) -> None:
    """Remove a file, or with `tree` a folder and all that it holds, if it is there.

    Raises:
        RunFolderError: It cannot be removed, or not completely.
    """
    try:
        if not tree:
            path.unlink(missing_ok=True)
        elif path.is_dir():
            shutil.rmtree(path)
    except OSError as error:
        raise RunFolderError(
            f"{path}: cannot be removed completely: {error.strerror or error}.",
            hint="Check its rights and the disk, remove it yourself, and start again.",
        ) from error


def _error_number(error: Exception) -> int | None:
    """Return the system's error number; safetensors and tokenizers only put it into their message."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None
