"""Ownership: how palbert recognises a run folder of its own, and keeps a second writer out of it."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from palbert.errors import RunFolderError
from palbert.runtime import locks
from palbert.runtime.durable import make_folder
from palbert.runtime.files import disk_errors
from palbert.runtime.json_objects import parse_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = 1


def mark() -> str:
    """Return the content of a new folder's marker: a format and a random id."""
    return json.dumps({"format": FORMAT, "palbert_run": secrets.token_hex(16)}) + "\n"


def is_marked(marker: Path) -> bool:
    """Whether a file is a marker."""
    try:
        content = parse_json(marker.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and isinstance(content.get("palbert_run"), str)


def is_resolved_recipe(recipe: Path) -> bool:
    """Whether a file is the recipe of a run of an earlier version, with what the run is made from."""
    try:
        content = tomllib.loads(recipe.read_text("utf-8"))
        return bool(content["encoder"]["name"] and content["provenance"]["versions"]["palbert"])
    except (OSError, RecursionError, ValueError, KeyError, TypeError):
        return False


@contextmanager
def locked_folder(folder: Path, doing: str) -> Iterator[None]:
    """Hold a lock on a folder; raise RunFolderError that says what the process does that holds it."""
    if not locks.AVAILABLE:
        yield
        return
    with disk_errors(folder):
        make_folder(folder)
        opened = os.open(folder, os.O_RDONLY)
    try:
        try:
            locks.take_lock(opened)
        except BlockingIOError:
            raise RunFolderError(
                f"{folder}: cannot start {doing}: another process is {_read(folder) or 'working'} here.",
                hint="Wait for it, or stop it.",
            ) from None
        _write(folder, doing)
        yield
    finally:
        os.close(opened)


def _write(folder: Path, doing: str) -> None:
    """Note on the folder's lock what its holder does; the note is not a file, so that the folder stays as it is."""
    with suppress(OSError, AttributeError):
        os.setxattr(folder, "user.palbert", doing.encode())


def _read(folder: Path) -> str:
    try:
        return os.getxattr(folder, "user.palbert").decode()
    except (OSError, AttributeError):
        return ""
