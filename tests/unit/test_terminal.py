"""The terminal: tables that show text as it is, and the command that continues what was stopped."""

from __future__ import annotations

import logging
import re
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


OBEYED = "\x1b[31m\x9b\u202e[red]\r\x07"
SHOWN = r"\u001b[31m\u009b\u202e[red]\u000d\u0007"


def test_what_is_said_is_exact_in_a_pipe_and_harmless_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.say(OBEYED)
    assert capsys.readouterr().out == OBEYED + "\n"
    terminal.say("caf\udce9")  # of a file name that is not UTF-8; nothing can write it
    assert capsys.readouterr().out == "caf\\udce9\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    terminal.say(OBEYED)
    assert capsys.readouterr().out == SHOWN + "\n"


@pytest.mark.parametrize("interactive", [False, True])
def test_tables_never_hold_control_characters(
    interactive: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: interactive)
    monkeypatch.setenv("COLUMNS", "120")
    terminal.print_table([f"name{OBEYED}", "what"], [[f"a{OBEYED}", "two\nlines"]])
    header, row = re.sub(r"\x1b\[[01]m", "", capsys.readouterr().out).splitlines()  # the header is bold
    assert header.startswith(f"name{SHOWN}  ") and row.split() == [f"a{SHOWN}", r"two\u000alines"]


def test_errors_and_tracebacks_never_hold_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_error(OBEYED, OBEYED)
    terminal.print_details(OBEYED.replace("\r", ""))
    try:
        raise ValueError(OBEYED)
    except ValueError:
        terminal.print_traceback()
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [f"error: {SHOWN}", f"  {SHOWN}"] and lines[-1] == f"ValueError: {SHOWN}"
    assert all(line.isprintable() for line in lines)


def test_log_lines_are_text_without_markup_emoji_or_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from palbert.runtime import progress

    logger = logging.getLogger("palbert")
    former = logger.handlers[:], logger.level, logger.propagate
    monkeypatch.setattr(progress, "console", lambda: Console(stderr=True, force_terminal=True, width=80))
    try:
        logger.handlers[:] = []
        terminal.log_to_terminal()
        logging.getLogger("palbert.a").warning("%s :smile: [/]", OBEYED)
    finally:
        logger.handlers[:], logger.propagate = former[0], former[2]
        logger.setLevel(former[1])
    assert capsys.readouterr().err == f"{SHOWN} :smile: [/]\n"


def test_nothing_else_prints() -> None:
    """All output goes through this module and the displays, which make control characters visible."""
    root = Path(terminal.__file__).parent
    printing = re.compile(r"\b(typer\.echo|(?<!\.)print|traceback\.print_\w+|sys\.std(out|err)\.write)\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if printing.search(path.read_text("utf-8"))}
    assert found == {"terminal.py", "verbs/exports/predict.py"}  # the latter runs in exported folders, without palbert


def test_a_message_that_repeats_a_long_text_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_error("x" * 10**6, "y\n" * 1000)
    message, *hint = capsys.readouterr().err.splitlines()
    assert len(message) == 2001 and message.endswith("x…")
    assert len(hint) == 201 and hint[-1] == "… and 801 more lines"
