"""TuneFolder: what is a search, what is not, and what is replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.tuning.folder import TuneFolder


@pytest.fixture
def folder(tmp_path: Path) -> TuneFolder:
    folder = TuneFolder(tmp_path / "search")
    folder.begin({"seed": 1}, "[space]\n")
    return folder


def test_a_search_is_continued_or_replaced_only_if_that_is_asked_for(folder: TuneFolder, tmp_path: Path) -> None:
    assert folder.exists and folder.settings == {"seed": 1}
    with pytest.raises(RunFolderError, match=r"already holds a search.*--resume.*--force"):
        folder.check_free(resume=False, force=False)
    folder.check_free(resume=True, force=False)
    folder.check_free(resume=False, force=True)
    with pytest.raises(RunFolderError, match="there is no search to resume"):
        TuneFolder(tmp_path / "new").check_free(resume=True, force=False)
    TuneFolder(tmp_path / "new").check_free(resume=False, force=False)


def test_other_folders_and_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    for force in (False, True):
        with pytest.raises(RunFolderError, match="holds other files"):
            TuneFolder(tmp_path / "mine").check_free(resume=False, force=force)
    with pytest.raises(RunFolderError, match="expected a folder, found a file"):
        TuneFolder(tmp_path / "mine" / "thesis.tex").check_free(resume=False, force=True)
    (tmp_path / "mine" / "search.json").write_text(json.dumps({"of": "somebody"}))
    with pytest.raises(RunFolderError, match="damaged, or of another version"):
        TuneFolder(tmp_path / "mine").check_free(resume=False, force=True)


def test_a_new_search_removes_the_former_one_and_nothing_else(folder: TuneFolder) -> None:
    run = folder.trial(0)
    run.claim()
    run.path.with_suffix(".log").touch()
    for file in (folder.journal, folder.best, folder.path / "notes.txt", folder.trials / "mine.txt"):
        file.write_text("kept?")
    folder.begin({"seed": 2}, "[space]\n")
    left = sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*"))
    assert left == ["notes.txt", "search.json", "space.toml", "trials", "trials/mine.txt"]
    assert folder.settings == {"seed": 2}


def test_runs_with_files_of_somebody_else_are_not_replaced(folder: TuneFolder) -> None:
    runs = [folder.trial(number) for number in (0, 1)]
    for run in runs:
        run.claim()
        run.predictions.mkdir()
    (runs[1].predictions / "mine.txt").touch()
    with pytest.raises(RunFolderError, match="was not written by palbert"):
        folder.begin({"seed": 2}, "[space]\n")
    assert all(RunFolder(run.path).exists for run in runs) and folder.settings == {"seed": 1}


def test_two_processes_cannot_use_one_folder(folder: TuneFolder) -> None:
    with folder.locked(), pytest.raises(RunFolderError, match="another process is tuning here"), folder.locked():
        pass
