"""RunFolder: where each file of a run is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palbert.errors import CheckpointError, RunFolderError
from palbert.runtime.files import (
    disk_errors,
    is_temporary,
    move_away,
    recover_folder,
    recover_folders,
    remove,
    write_text,
)
from palbert.runtime.ownership import is_marked, is_resolved_recipe, locked_folder, mark
from palbert.runtime.run_files import foreign_files

Resume = bool | Literal["auto"]
"""Whether to continue the run in a folder; "auto" continues it if there is one, and begins it otherwise."""
SPLITS = ("train", "dev", "test")
HALF_WRITTEN = re.compile(r"\.(best|best-.+|last|previous)\..+")
"""Names of checkpoints that are being written; those of earlier versions end in other ways than today's."""
LAST, PREVIOUS = "last", "previous"


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.toml"

    @property
    def metrics(self) -> Path:
        """The log of the run, one JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def non_finite(self) -> Path:
        """The steps whose losses or gradients were not finite, with their rows, one JSON object per line."""
        return self.path / "non-finite.jsonl"

    @property
    def spikes(self) -> Path:
        """The steps whose losses were far above the usual, with their rows, one JSON object per line."""
        return self.path / "spikes.jsonl"

    @property
    def logs(self) -> list[Path]:
        """The files that the run appends to."""
        return [self.metrics, self.non_finite, self.spikes]

    @property
    def baselines(self) -> Path:
        """The scores on dev that the run has to beat, measured before training."""
        return self.path / "baselines.json"

    @property
    def trackers(self) -> Path:
        """The ids that tracking services gave the run."""
        return self.path / "trackers.json"

    @property
    def folds(self) -> Path:
        """The scores of a cross-validation, whose folds are runs of their own."""
        return self.path / "folds.json"

    @property
    def predictions(self) -> Path:
        """One CSV per task and split."""
        return self.path / "predictions"

    @property
    def submission(self) -> Path:
        """Prediction files to submit."""
        return self.path / "submission"

    @property
    def checkpoints(self) -> Path:
        """best, best-<task>, last and previous."""
        return self.path / "checkpoints"

    @property
    def last(self) -> Path:
        """The checkpoint to resume from."""
        return self.checkpoints / LAST

    @property
    def previous(self) -> Path:
        """The checkpoint that `last` has replaced, in case that one is damaged."""
        return self.checkpoints / PREVIOUS

    @property
    def rows(self) -> Path:
        """Rows that were given in memory, one file per task and split; an absolute path."""
        return self.path.resolve() / "data"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's files."""
        return self.path / "tensorboard"

    @property
    def pretrained(self) -> Path:
        """The encoder from the run's own pretraining, if it has one; a run folder itself."""
        return self.path / "pretrained"

    @property
    def evaluations(self) -> Path:
        """Reports and predictions of other checkpoints and of other rows, one folder each."""
        return self.path / "evaluations"

    @property
    def audits(self) -> Path:
        """Audits of the run, one folder each."""
        return self.path / "audits"

    @property
    def bias(self) -> Path:
        """The audit of bias."""
        return self.audits / "bias"

    def report(self, suffix: str, *, split: str = "dev") -> Path:
        """report.<suffix>, or report-<split>.<suffix> for a split other than dev."""
        return self.path / (f"report.{suffix}" if split == "dev" else f"report-{split}.{suffix}")

    @property
    def marker(self) -> Path:
        """Proves that palbert has made this folder; written before everything else."""
        return self.path / ".palbert-run.json"

    @property
    def exists(self) -> bool:
        """Whether a run is here that palbert can prove to have written."""
        return is_marked(self.marker) or is_resolved_recipe(self.recipe)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing is here but what a run killed at its very start leaves: it has not done anything yet."""
        own = (self.marker, self.recipe) if self._is_marked else (self.marker,)
        return all(path in own or is_temporary(path.name) for path in self.path.iterdir())

    @property
    def has_begun(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        recover_folder(self.last, former=self.previous)
        return self.last.exists()

    @property
    def can_resume(self) -> bool:
        """Whether there is anything to resume from: a checkpoint, or the run's own pretraining."""
        return self.has_begun or self.pretrained.is_dir()

    @contextmanager
    def locked(self, doing: str = "training") -> Iterator[None]:
        """Hold a lock on the folder, or raise RunFolderError; the lock ends with the process, however that ends.

        Args:
            doing: What this process does here, which the error of another one says.
        """
        with locked_folder(self.path, doing):
            yield

    def claim(self) -> None:
        """Make the folder and mark it as palbert's, before anything else is written to it."""
        if not is_marked(self.marker):
            write_text(self.marker, mark())

    def check_free(self, *, resume: Resume | None, force: bool) -> None:
        """Raise RunFolderError if the folder holds another run or other files, or nothing to resume.

        Args:
            resume: Whether a run in the folder is continued; None for a verb that cannot continue runs.
            force: Whether a run in the folder is replaced.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path}: expected a folder, found a file.")
        untouched = self.path.is_dir() and self.is_untouched
        killed_at_start = untouched and any(self.path.iterdir())
        if resume and self._is_derived:
            raise RunFolderError(
                f"{self.path}: nothing to resume: the run was made from others, and not trained here.",
                hint="Train into another folder with --out.",
            )
        if resume and (self.exists or killed_at_start):
            return
        if resume is True:
            raise RunFolderError(
                f"{self.path}: nothing to resume: there is no checkpoints/last.", hint="Train without --resume."
            )
        if self.path.is_dir() and not untouched:
            self._refuse_to_mix(resume=resume, force=force)

    @property
    def _is_derived(self) -> bool:
        """Whether the run was made from others, or is a copy without what training needs to go on."""
        return (self.checkpoints / "best").is_dir() and not self.can_resume

    @property
    def _is_marked(self) -> bool:
        return is_marked(self.marker)

    def _refuse_to_mix(self, *, resume: Resume | None, force: bool) -> None:
        """Raise RunFolderError for a folder with files, unless they are a run's and are to be replaced."""
        if not self.exists:
            raise RunFolderError(
                f"{self.path}: holds other files, and a run would mix with them.",
                hint="Give another folder with --out.",
            )
        if not force:
            can_resume = resume is not None and not self._is_derived
            add, python = ("--resume to continue it, --force", "resume=True, ") if can_resume else ("--force", "")
            raise RunFolderError(
                f"{self.path}: already holds a run.",
                hint=f"Add {add} to replace it, or give another folder with --out "
                f"(in Python: {python}force=True, out=...).",
            )
        self._refuse_foreign([*self._replaced, self.pretrained])

    @property
    def _replaced(self) -> list[Path]:
        """The folders that a new run replaces."""
        return [self.predictions, self.submission, self.checkpoints, self.tensorboard, self.evaluations, self.audits]

    def _refuse_foreign(self, folders: list[Path]) -> None:
        """Raise RunFolderError if folders of the run hold something that palbert did not write."""
        found = list(foreign_files(self.path, folders))
        if found:
            more = f", nor were {len(found) - 1} others" if found[1:] else ""
            raise RunFolderError(
                f"{found[0]}: was not written by palbert{more}, and would be removed with the run.",
                hint="Move it out of the run folder, or give another folder with --out.",
            )

    def clear(self, *, keep_pretrained: bool = False, keep_rows: Collection[str] = ()) -> None:
        """Remove the files of a former run, and only those, and make the folder.

        Args:
            keep_pretrained: Leave the run's own pretraining.
            keep_rows: Files to leave, where a run is trained again from its own recipe.
        """
        folders = self._replaced if keep_pretrained else [*self._replaced, self.pretrained]
        self._refuse_foreign(folders)
        self.claim()
        with disk_errors(self.path):
            rows = [file for file in self._former_rows() if str(file) not in keep_rows]
            reports = [self.report(suffix, split=split) for suffix in ("json", "html") for split in SPLITS]
            records = (self.recipe, *self.logs, self.baselines, self.trackers, self.folds)
            for folder in folders:
                remove(folder, tree=True)
            for file in (*records, *reports, *rows):
                remove(file)
            if rows and not any(self.rows.iterdir()):
                self.rows.rmdir()

    def _former_rows(self) -> list[Path]:
        """Return the files of rows that were given in memory: those that the run's recipe names."""
        folder = self.path / self.rows.name
        if folder.is_symlink() or not folder.is_dir() or not self.recipe.is_file():
            return []
        recipe = self.recipe.read_text("utf-8", errors="replace")
        return [file for file in self.rows.glob("*.jsonl") if f'"{folder.name}/{file.name}"' in recipe]

    def remove(self) -> None:
        """Remove a run, and its folder unless other files are in it."""
        self.clear()
        remove(self.marker)
        with suppress(OSError):
            self.path.rmdir()

    def sweep(self) -> None:
        """Restore what a killed run had moved away, and remove its half-written checkpoints."""
        if self.checkpoints.is_dir():
            recover_folders(self.checkpoints)
        for folder in self.checkpoints.glob(".*"):  # the caller holds the run's lock: nobody is writing here
            if HALF_WRITTEN.fullmatch(folder.name) and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)

    def restore_previous(self) -> None:
        """Put the checkpoint before `last` in its place, as it is damaged; `sweep` removes the damaged one."""
        with disk_errors(self.last):
            move_away(self.last)
            self.previous.rename(self.last)

    def checkpoint(self, name: str | None = None) -> Path:
        """Return a checkpoint: the named one, or the best, or the last if there is no best yet."""
        if (self.path / "palbert.json").is_file():
            return self.path  # the checkpoint itself was given
        for candidate in [name] if name else ["best", LAST]:
            folder = self.checkpoints / candidate
            recover_folder(folder, former=self.previous if candidate == LAST else None)
            if folder.is_dir():
                return folder
        if not self.path.exists():
            raise CheckpointError(f"{self.path}: no such folder.", hint="Give the folder of a run.")
        there = sorted(folder.name for folder in self.checkpoints.glob("[!.]*"))
        raise CheckpointError(
            f"{self.path}: no checkpoint '{name}'." if name else f"{self.path}: holds no checkpoint.",
            hint=f"There are: {', '.join(there)}." if there else "Give the folder of a run.",
        )
