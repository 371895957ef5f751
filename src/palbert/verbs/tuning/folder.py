"""TuneFolder: where each file of a search is, and which folders palbert may continue or replace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.errors import RunFolderError
from palbert.runtime.files import disk_errors, is_temporary, remove, write_text
from palbert.runtime.json_objects import read_object
from palbert.runtime.ownership import locked_folder
from palbert.runtime.run_folder import RunFolder

FORMAT = 1


@dataclass(frozen=True)
class TuneFolder:
    """A folder that holds one search."""

    path: Path

    @property
    def search(self) -> Path:
        """What is searched: recipe, space and seed. Written first, it proves that palbert has made the folder."""
        return self.path / "search.json"

    @property
    def journal(self) -> Path:
        """Optuna's journal, with every trial and every score."""
        return self.path / "journal.log"

    @property
    def space(self) -> Path:
        """The space, as it can be given to another search."""
        return self.path / "space.toml"

    @property
    def summary(self) -> Path:
        """All numbers of the search."""
        return self.path / "tune.json"

    @property
    def report(self) -> Path:
        """The report of the search."""
        return self.path / "report.html"

    @property
    def best(self) -> Path:
        """The best recipe."""
        return self.path / "best.toml"

    @property
    def trials(self) -> Path:
        """One run folder per trial, and its log next to it."""
        return self.path / "trials"

    @property
    def confirmation(self) -> Path:
        """The runs with fresh seeds."""
        return self.path / "confirm"

    def trial(self, number: int) -> RunFolder:
        """Return the run folder of a trial."""
        return RunFolder(self.trials / f"{number:04}")

    @property
    def settings(self) -> dict[str, Any]:
        """The content of search.json."""
        hint = "Search again with --force, or into another folder with --out."
        found = read_object(self.search, raises=RunFolderError, hint=hint)
        if found.get("format") != FORMAT or not isinstance(found.get("palbert_search"), dict):
            raise RunFolderError(f"{self.search}: damaged, or of another version of palbert.", hint=hint)
        return dict(found["palbert_search"])

    @property
    def exists(self) -> bool:
        """Whether a search is here that palbert can prove to have written."""
        try:
            return bool(self.settings)
        except RunFolderError:
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock on the folder, or raise RunFolderError; the lock ends with the process, however that ends."""
        with locked_folder(self.path, "tuning"):
            yield

    def check_free(self, *, resume: bool, force: bool) -> None:
        """Raise RunFolderError if the folder holds another search or other files, or nothing to resume."""
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path}: expected a folder, found a file.")
        is_free = not self.path.is_dir() or all(is_temporary(path.name) for path in self.path.iterdir())
        if is_free and resume:
            raise RunFolderError(f"{self.path}: there is no search to resume.", hint="Leave --resume out.")
        if is_free:
            return
        if not self.search.is_file():
            raise RunFolderError(
                f"{self.path}: holds other files, and a search would mix with them.",
                hint="Give another folder with --out.",
            )
        if not (resume or force):
            raise RunFolderError(
                f"{self.path}: already holds a search.",
                hint="Add --resume to continue it, --force to replace it, or give another folder with --out "
                "(in Python: resume=True, force=True, out=...).",
            )
        assert self.settings  # raises if somebody else has written a file of this name

    def begin(self, settings: Mapping[str, Any], space: str) -> None:
        """Write what is searched; remove a former search."""
        runs = [
            RunFolder(path) for folder in (self.trials, self.confirmation) for path in sorted(folder.glob("[!.]*/"))
        ]
        mine = [run for run in runs if run.exists and not run.path.is_symlink()]
        for run in mine:  # all are removed, or none
            run.check_free(resume=False, force=True)
        with disk_errors(self.path):
            for file in (self.journal, self.summary, self.report, self.best, self.space):
                remove(file)
            for run in mine:
                run.remove()
                remove(run.path.with_suffix(".log"))
            for folder in (self.trials, self.confirmation):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
        write_text(self.search, json.dumps({"format": FORMAT, "palbert_search": settings}, indent=1) + "\n")
        write_text(self.space, space)
