"""The check of commit subjects: what it accepts, what it refuses, and which commits it reads."""

from __future__ import annotations

import runpy
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


def test_only_commits_after_a_given_one_are_judged(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    subjects, values = script["new_subjects"], script["new_subjects"].__globals__
    assert subjects(tmp_path) == []  # no git
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Wrongs of the past")
    assert subjects(tmp_path) == []  # a history without the given commit
    values["SINCE"] = _git(tmp_path, "rev-parse", "HEAD")
    assert subjects(tmp_path) == []
    _git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Another wrong")
    assert subjects(tmp_path) == ["Another wrong"]


def _run(script: Path | str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=60)


def _git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=palbert", "-c", "user.email=palbert@localhost"]
    command = ["git", *names, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout.strip()
