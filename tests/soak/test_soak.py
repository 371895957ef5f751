"""A fixed sample of the soak: every kind of fault at every kind of operation, changed bytes, and processes at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.soak.faults import KINDS
from tests.soak.operations import KINDS as OPERATIONS

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork") or not Path("/proc/self/fd").is_dir(), reason="forks, and reads /proc"),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="pathlib keeps its own references to os in Python 3.10"),
]


def soak(tmp_path: Path, *arguments: str) -> list[tuple[str, str, str, int]]:
    """Run a sample in a process of its own, which forks; return what it tried, if nothing was lost."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--sample", "--json", str(tmp_path / "tally.json"), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    found: dict[str, Any] = json.loads((tmp_path / "tally.json").read_text("utf-8"))
    assert found["findings"] == {}
    return [(part, row, column, count) for part, row, column, count in found["counts"]]


def test_commands_survive_every_kind_of_fault_at_every_kind_of_operation(tmp_path: Path) -> None:
    tried = soak(tmp_path, "--only", "faults")
    assert {row for _, row, _, _ in tried} == set(KINDS)
    # A file is truncated only where a child was slow enough to be resumed in the middle of one.
    assert {column for _, row, column, _ in tried if row == "kill"} >= set(OPERATIONS) - {"truncate"}


def test_files_with_changed_bytes_are_refused_or_read_right(tmp_path: Path) -> None:
    from tests.soak.readers import FUZZED

    tried = soak(tmp_path, "--only", "fuzz")
    assert {row: count for _, row, _, count in tried} == dict.fromkeys(FUZZED, 20)


def test_generated_inputs_are_read_as_they_were_written(tmp_path: Path) -> None:
    from tests.soak.laws import LAWS

    tried = soak(tmp_path, "--only", "laws")
    assert {row: count for _, row, _, count in tried} == dict.fromkeys(LAWS, 50)


def test_processes_at_once_end_as_one_would(tmp_path: Path) -> None:
    from tests.soak.processes import TOGETHER

    tried = soak(tmp_path, "--only", "processes")
    assert {row: count for _, row, _, count in tried} == dict.fromkeys(TOGETHER, 1)
