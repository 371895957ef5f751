"""Export folders: which ones an export may replace, and the record of what it has written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.errors import RunFolderError
from palbert.runtime.checksums import RECORD, read_record, record_folder
from palbert.runtime.run_files import LEFT_BY_SYSTEMS
from palbert.runtime.run_folder import RunFolder

ORIGIN = "palbert-export.json"
"""The file that says what a folder was exported from."""


def refuse_to_replace_export(folder: Path, *, force: bool) -> None:
    """Raise RunFolderError unless a folder is free, or holds an export alone and may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder}: expected a folder, found a file.", hint="Give another folder with --out.")
    if RunFolder(folder).exists or RunFolder(folder).checkpoints.exists():
        raise RunFolderError(f"{folder}: holds a run.", hint="Give another folder with --out.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if (foreign := _foreign_file(folder)) is not None:
        raise RunFolderError(
            f"{foreign}: palbert did not export this, and would remove it with the folder.",
            hint="Give another folder with --out, or remove this one yourself.",
        )
    if not force:
        raise RunFolderError(
            f"{folder}: holds an export already.", hint="Add --force to replace it, or give another --out."
        )


def _foreign_file(folder: Path) -> Path | None:
    """Return a file or link that an export has not written, as its record says; None where there is none."""
    record = read_record(folder) or {}
    known = {*record, RECORD} if ORIGIN in record else set()
    for place, below, files in os.walk(folder):  # which does not follow links
        links = [name for name in below if Path(place, name).is_symlink()]
        for path in sorted(Path(place, name) for name in [*files, *links]):
            is_own = path.relative_to(folder).as_posix() in known and not path.is_symlink()
            if not is_own and path.name not in LEFT_BY_SYSTEMS:
                return path
    return None


def record_export(folder: Path, origin: Mapping[str, Any]) -> None:
    """Write what a folder was exported from, and the hashes of its files."""
    (folder / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    record_folder(folder)
