"""palbert submit: a folder and files of single tasks, and a table of what was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.reproduction.submit import Submission

Cli = Callable[..., Any]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the function behind the command; return what it was called with."""
    found: dict[str, Any] = {}

    def submit(run: Path, **settings: Any) -> Submission:
        found.update(run=run, **settings)
        return Submission(run, {"sst": [Path("out/sst.csv"), Path("out/course.csv")]}, {"sst": 1200})

    monkeypatch.setattr("palbert.reproduction.submit.submit", submit)
    return found


def test_a_folder_is_distinguished_from_files_of_single_tasks(called: dict[str, Any], tmp_path: Path, cli: Cli) -> None:
    odd = tmp_path / "a=b"
    odd.mkdir()
    result = cli("submit", "run", "--test", odd, "--test", "quora=x=y.csv", "--task", "quora", "--split", "dev")
    assert result.code == 0
    assert (called["test"], called["files"]) == (str(odd), {"quora": "x=y.csv"})
    assert (called["run"], called["tasks"], called["split"]) == (Path("run"), ["quora"], "dev")
    assert [line.split() for line in result.out.splitlines()] == [
        ["task", "rows", "file"],
        ["sst", "1,200", "out/sst.csv"],
        ["sst", "1,200", "out/course.csv"],
    ]


def test_without_options_the_run_decides(called: dict[str, Any], cli: Cli) -> None:
    assert cli("submit", "run").code == 0
    plain: dict[str, Any] = {"test": None, "files": {}, "tasks": (), "split": "test", "out": None, "with_dev": False}
    assert called == {"run": Path("run"), **plain, "checkpoint": None, "force": False, "spreadsheet_safe": False}


def test_two_folders_are_refused(called: dict[str, Any], cli: Cli) -> None:
    result = cli("submit", "run", "--test", "one", "--test", "two")
    assert result.code == 2 and "expected one folder, found 2" in result.err and called == {}
