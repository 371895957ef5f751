"""The check of commit subjects: what it accepts, what it refuses, and which commits it reads."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "check_commits.py"
problems = runpy.run_path(str(SCRIPT))["problems"]


@pytest.mark.parametrize(
    "subject",
    [
        "Print '1 epoch', not '1 epochs'",
        "Pass the mask through",
        "Process rows in batches",
        "Focus the page on training",
        "Feed the sampler from a list",
        "Bring back the old name",
        "Embed the picture",
        "Merge branch 'main' of a very long address that is longer than any subject should ever be",
    ],
)
def test_an_imperative_subject_is_accepted(subject: str) -> None:
    assert problems(subject) == []


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("Add " + "x" * 69, "at most 72 characters, found 73"),
        ("add a test", "capital letter"),
        ("docs: add a page", "capital letter"),
        ("Added a test", "imperative"),
        ("Adds a test", "imperative"),
        ("Adding a test", "imperative"),
        ("A gradient method is a class", "imperative"),
        ("One epoch is no epochs", "imperative"),
        ("Add a test.", "full stop"),
    ],
)
def test_any_other_subject_is_refused_with_its_reason(subject: str, problem: str) -> None:
    assert [found for found in problems(subject) if problem in found]


def test_a_message_file_is_judged_by_its_first_line(tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.write_text("Add a test\n\nThe body may say anything.\n")
    assert _run(SCRIPT, "--message", str(message)).returncode == 0
    message.write_text("Added a test\n")
    refused = _run(SCRIPT, "--message", str(message))
    assert refused.returncode == 1 and "'Added a test'" in refused.stderr


def test_only_commits_after_the_check_itself_are_judged(tmp_path: Path) -> None:
    copy = tmp_path / "tools" / SCRIPT.name
    copy.parent.mkdir()
    assert _run(shutil.copy(SCRIPT, copy)).returncode == 0, "no git history"
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Wrongs of the past")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "-m", "Introducing the check")
    assert _run(copy).returncode == 0
    _git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Another wrong")
    assert "'Another wrong'" in _run(copy).stderr


def _run(script: Path | str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=60)


def _git(folder: Path, *arguments: str) -> None:
    names = ["-c", "user.name=palbert", "-c", "user.email=palbert@localhost"]
    subprocess.run(["git", *names, "-C", str(folder), *arguments], check=True, timeout=60)
