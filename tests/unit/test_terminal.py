"""The terminal: tables that show text as it is, and the command that continues what was stopped."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from palbert import terminal
from palbert.errors import StoppedError
from palbert.reporting.bootstrap import PairedDifference
from palbert.verbs.compare import Comparison


def test_a_table_shows_brackets_and_colons_literally(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_table(["run", "what"], [["runs/[old]", "[red]sad :smile:"], ["b", "x" * 300]])
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["run", "what"]
    assert first.split("  ")[0] == "runs/[old]" and "[red]sad :smile:" in first
    assert second.split()[-1] == "x" * 300  # nothing is wrapped in a pipe


def test_a_summary_shows_scores_next_to_all_baselines(capsys: pytest.CaptureFixture[str]) -> None:
    summary: dict[str, Any] = {
        "metrics": {"sst": "accuracy"},
        "tasks": {"sst": {"accuracy": 0.5, "macro_f1": 0.4}},
        "baselines": {"constant": {"sst": 0.25}, "untrained": {"sst": 0.125}},
        "intervals": {"sst": {"low": 0.45, "high": 0.55}},
        "overall": 0.5,
        "formula": "sst.accuracy",
        "encoder": "minilm",
        "seed": 3,
        "split": "dev",
        "seconds": 61.4,
        "device": "cpu",
        "precision": "fp32",
        "notes": ["A small sample."],
    }
    terminal.print_summary(summary)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "task" and "constant" in lines[0] and "untrained" in lines[0]
    assert lines[1].split() == ["sst", "accuracy", "0.250", "0.125", "0.500", "0.450", "…", "0.550"]
    assert "Overall 0.5000 = sst.accuracy" in lines
    assert "minilm, seed 3, dev split, trained for 61 s on cpu (fp32)" in lines
    assert lines[-1] == "Note: A small sample."


def test_a_comparison_shows_both_scores_and_the_signed_difference(capsys: pytest.CaptureFixture[str]) -> None:
    difference = PairedDifference(difference=-0.25, low=-0.3, high=0.01, p_value=0.06)
    comparison = Comparison("sst", "accuracy", "runs/b", 0.5, "runs/a", 0.75, difference)
    terminal.print_comparisons([comparison], "runs/a")
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["task", "metric", "run", "runs/a"]
    assert row.split() == [
        "sst",
        "accuracy",
        "runs/b",
        "0.7500",
        "0.5000",
        "-0.2500",
        "-0.3000",
        "…",
        "+0.0100",
        "0.060",
    ]


def test_a_stopped_run_names_the_command_that_continues_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    stop = StoppedError(Path("my runs/a"), verb="train")
    assert terminal.how_to_continue(stop) == (
        "Continue with: palbert train 'my runs/a'/recipe.toml --out 'my runs/a' --resume"
    )
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert "torchrun --nproc-per-node 4 -m palbert train" in terminal.how_to_continue(stop)
    again = StoppedError(Path("runs"), verb="reproduce")
    assert terminal.how_to_continue(again) == "Continue with the same command."


def test_only_the_first_process_logs_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("palbert")
    former = logger.handlers[:], logger.level, logger.propagate
    try:
        for rank, level in (("0", logging.INFO), ("1", logging.ERROR)):
            monkeypatch.setenv("RANK", rank)
            terminal.log_to_terminal()
            assert logger.level == level and terminal.is_first_process() == (rank == "0")
    finally:
        logger.handlers[:], logger.propagate = former[0], former[2]
        logger.setLevel(former[1])


def test_an_error_and_its_hint_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_error("no such file.", "Give another.")
    terminal.print_error("stopped", None)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "error: no such file.\n  Give another.\nerror: stopped\n")


def test_a_table_that_is_too_wide_is_written_one_cell_per_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    terminal.print_table(["phase", "tokens"], [["the first one of two", "1,234,567,890"], ["second", ""]])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["phase   the first one of two", "tokens  1,234,567,890", "", "phase   second"]
