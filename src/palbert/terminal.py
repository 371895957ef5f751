"""What the terminal shows: tables and answers on stdout, errors and the log on stderr."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import typer

from palbert.errors import ConnectionLostError, StoppedError
from palbert.reporting.display import Table, comparison_table, memory_table, summary_table
from palbert.runtime.visible import visible, visible_line

NOTES = "palbert.verbs.notes"
"""The logger of a report's notes, which `print_summary` shows."""


LONGEST_LINE, MOST_LINES = 2_000, 200
"""Characters of a line, and lines, of an error message in a terminal."""


def say(text: str) -> None:
    """Print a text on stdout: exactly in a pipe or a file, with visible control characters in a terminal."""
    if sys.stdout.isatty() or not _can_be_written(text):
        text = visible(text)
    typer.echo(text, color=True)  # otherwise colours would be taken out of texts in a pipe


def _can_be_written(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "strict")
    except UnicodeEncodeError:
        return False
    return True


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print the content of a report.json: scores next to the baselines."""
    _print(summary_table(summary))


def print_memory(summary: Mapping[str, Any]) -> None:
    """Print what a dry run found: one line per phase, then the phase that needs most."""
    _print(memory_table(summary))


def print_comparisons(comparisons: Sequence[Any], reference: str) -> None:
    """Print how runs differ from the first one."""
    _print(comparison_table(comparisons, reference))


def _print(table: Table) -> None:
    print_table(list(table.header), [list(row) for row in table.rows])
    for number, line in enumerate(table.lines):
        say("\n" * (number == 0) + line)


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a table on stdout; control characters and line breaks in its cells are visible."""
    from rich.console import Console
    from rich.table import Table

    header, rows = [visible_line(name) for name in header], [[visible_line(cell) for cell in row] for row in rows]
    table = Table(*header, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    # A pipe or a file has no width: there, nothing is wrapped and each row stays on one line.
    width = None if sys.stdout.isatty() else 10_000
    console = Console(markup=False, emoji=False, highlight=False, width=width)
    needed = console.measure(table, options=console.options.update(width=10_000)).maximum
    if needed > console.width:  # a cell that is cut would be wrong: one line per cell
        size = max(map(len, header))
        for number, row in enumerate(rows):
            lines = (f"{name:{size}}  {cell}" for name, cell in zip(header, row, strict=True) if cell)
            console.print("\n" * (number > 0) + "\n".join(lines), soft_wrap=True)
        return
    console.print(table)


TURN = 3.0
"""Seconds within which a launcher ends the other processes, when one has ended."""


def is_first_process() -> bool:
    """Return whether this process prints: it is the only one, or the first that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def let_first_process_report(error: Exception) -> None:
    """Of several processes, wait for the launcher to end this one, if another one reports the error.

    An error of all processes is reported by the first: the launcher ends the others when it has ended. A lost
    connection follows from the end of another process, which says why. All other errors are reported after the wait.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return
    turns = 0 if is_first_process() else 1 if os.environ.get("LOCAL_RANK", "0") == "0" else 2
    with suppress(KeyboardInterrupt):
        time.sleep(TURN * (turns + isinstance(error, ConnectionLostError)))


def how_to_continue(stop: StoppedError) -> str:
    """Return the command that continues what was stopped, as this process was started."""
    if stop.verb in ("reproduce", "submit"):
        return "Continue with the same command."
    if stop.verb in ("tune", "add-task"):
        return "Continue with the same command and --resume."
    processes, folder = os.environ.get("LOCAL_WORLD_SIZE"), shlex.quote(str(stop.folder))
    command = f"torchrun --nproc-per-node {processes} -m palbert" if processes else "palbert"
    return f"Continue with: {command} {stop.verb} {folder}/recipe.toml --out {folder} --resume"


def print_error(message: str, hint: str | None) -> None:
    """Print on stderr what went wrong and what to do about it."""
    typer.echo(visible(_cut(f"error: {message}")), err=True)
    if hint:
        typer.echo(visible(_cut(f"  {hint}")), err=True)


def _cut(text: str) -> str:
    """Cut what is too long to be read, such as a text of a megabyte that a message repeats."""
    lines = [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in text.split("\n")]
    more = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], *([f"… and {more:,} more lines"] if more > 0 else [])])


def print_details(details: str) -> None:
    """Print on stderr what helps to understand an error and is too long to be shown to everybody."""
    for line in details.splitlines():
        typer.echo(visible(f"  {line}"), err=True)


def print_traceback() -> None:
    """Print on stderr where the error that is handled was raised."""
    typer.echo(visible(traceback.format_exc()), err=True, nl=False)


def log_to_terminal() -> None:
    """Show palbert's log on stderr, above any progress bar."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == NOTES:  # `print_summary` shows them below the scores
                return
            from rich.text import Text  # rich is not imported before something is logged

            from palbert.runtime.progress import console, is_shown

            if getattr(record, "shown", False) and is_shown():  # in the table of scores
                return
            console().print(Text(visible(self.format(record))), soft_wrap=True)

    logger = logging.getLogger("palbert")
    logger.setLevel(logging.INFO if is_first_process() else logging.ERROR)
    logger.addHandler(Handler())
    logger.propagate = False
