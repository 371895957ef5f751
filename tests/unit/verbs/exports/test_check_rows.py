"""Rows of a check: texts of all lengths, and the dev rows of the run."""

from __future__ import annotations

from pathlib import Path

from palbert.build import Machine, open_checkpoint
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.export_check import TEXTS
from palbert.verbs.exports.check_rows import MOST, rows_of


def test_rows_are_texts_of_all_lengths_then_dev_rows(trained: Path, tmp_path: Path) -> None:
    run = RunFolder(trained)
    tasks = open_checkpoint(run.checkpoint(None), Machine.of("cpu", "fp32")).tasks
    single, pairs = rows_of(tasks["sst"], run), rows_of(tasks["quora"], run)
    assert single[: len(TEXTS)] == TEXTS and len(TEXTS) < len(single) <= len(TEXTS) + MOST
    assert all(isinstance(row, str) for row in single) and all(len(row) == 2 for row in pairs)
    assert {pair[0] for pair in pairs[: len(TEXTS)]} == set(TEXTS)
    assert rows_of(tasks["sst"], None) == rows_of(tasks["sst"], RunFolder(tmp_path)) == TEXTS
