"""palbert evaluate and compare: tables for people, JSON for programs, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


def test_evaluate_prints_the_report_that_it_writes(run_copy: Path, cli: Cli) -> None:
    result = cli("evaluate", run_copy, "--json")
    written = json.loads((run_copy / "report.json").read_text("utf-8"))
    assert result.code == 0 and json.loads(result.out) == written
    shown = cli("evaluate", run_copy)
    assert f"Overall {written['overall']:.4f} = {written['formula']}" in shown.out
    assert shown.out.endswith(f"Checkpoint: best\nReport: {run_copy / 'report.html'}\n")


def test_evaluate_does_not_change_the_report_of_the_best_checkpoint(run_copy: Path, cli: Cli) -> None:
    before = (run_copy / "report.json").read_bytes()
    result = cli("evaluate", run_copy, "--checkpoint", "last", "--json")
    assert json.loads(result.out)["checkpoint"] == "last"
    assert (run_copy / "evaluations/last/report.json").is_file()
    assert (run_copy / "report.json").read_bytes() == before


def test_evaluate_refuses_a_split_without_files(run_copy: Path, cli: Cli) -> None:
    result = cli("evaluate", run_copy, "--split", "test")
    assert result.code == 2 and "its recipe names no test files" in result.err


def test_compare_finds_no_difference_between_equal_runs(trained: Path, run_copy: Path, cli: Cli) -> None:
    result = cli("compare", trained, run_copy, "--json")
    found = json.loads(result.out)
    assert result.code == 0 and [each["task"] for each in found] == ["sst", "quora", "sts"]
    for each in found:
        assert each["score"] == each["reference_score"]
        assert each["difference"] == {"difference": 0.0, "low": 0.0, "high": 0.0, "p_value": 1.0}
        assert (each["reference"], each["run"]) == (str(trained), str(run_copy))


def test_compare_prints_one_line_per_task_and_run(trained: Path, run_copy: Path, cli: Cli) -> None:
    lines = cli("compare", trained, run_copy, run_copy).out.splitlines()
    assert len(lines) == 1 + 2 * 3
    assert lines[0].split()[:4] == ["task", "metric", "run", str(trained)]
    assert all("+0.0000" in line for line in lines[1:])


def test_compare_needs_two_runs_with_predictions(trained: Path, tmp_path: Path, cli: Cli) -> None:
    assert "Expected two or more runs" in cli("compare", trained).err
    (tmp_path / "empty").mkdir()
    result = cli("compare", trained, tmp_path / "empty")
    assert result.code == 2 and "no predictions here" in result.err


def test_evaluate_asks_which_task_a_file_belongs_to(run_copy: Path, cli: Cli) -> None:
    result = cli("evaluate", run_copy, "--test", "reviews.csv")
    assert result.code == 2 and "which task?\n  Write TASK=reviews.csv: sst, quora, sts." in result.err
    result = cli("evaluate", run_copy, "--label", "stars")
    assert result.code == 2 and "describe the files of --test" in result.err
