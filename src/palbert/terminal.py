"""What the terminal shows: tables and answers on stdout, errors and the log on stderr."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import typer

from palbert.errors import StoppedError


def print_summary(summary: dict[str, Any]) -> None:
    """Print the content of a report.json: scores next to the baselines."""
    baselines = summary["baselines"]
    rows = []
    for name, metric in summary["metrics"].items():
        interval = summary["intervals"][name]
        rows.append(
            [
                name,
                metric,
                *(f"{values[name]:.3f}" for values in baselines.values()),
                f"{summary['tasks'][name][metric]:.3f}",
                f"{interval['low']:.3f} … {interval['high']:.3f}",
            ]
        )
    print_table(["task", "metric", *baselines, "trained", "95 % interval"], rows)
    typer.echo(
        f"\nOverall {summary['overall']:.4f} = {summary['formula']}\n"
        f"{summary['encoder']}, seed {summary['seed']}, {summary['split']} split, "
        f"trained for {summary['seconds']:.0f} s on {summary['device']} ({summary['precision']})"
    )
    for note in summary["notes"]:
        typer.echo(f"Note: {note}")


def print_memory(summary: dict[str, Any]) -> None:
    """Print what a dry run found: one line per phase, then the phase that needs most."""
    parts = ("parameters", "gradients", "optimizer", "other", "activations", "graphs", "total")
    rows = []
    for phase in summary["phases"]:
        largest = [phase["phase"], " + ".join(phase["sets"]), f"{phase['step']:,}", f"{phase['tokens']:,}"]
        rows.append(
            [*largest, *(shown_bytes(phase["predicted"][part]) for part in parts), shown_bytes(phase["measured"])]
        )
    header = ["phase", "largest step", "number", "tokens", *parts[:-1], "predicted peak", "measured"]
    print_table(header, rows)
    worst = rows[summary["worst"]]
    named = f", in phase {worst[0]}" if len(rows) > 1 else ""
    has = f" with {shown_bytes(summary['capacity'])}" if summary["capacity"] else ""
    typer.echo(
        f"\nPeak memory of a step: {worst[-2]} predicted, {worst[-1]} measured{named}, "
        f"on {summary['device']}{has} ({summary['precision']})\n"
        "Gradients and activations are those held at the peak.\n"
        f"Measured: {summary['measured_by']}, in one step of full size."
    )


def shown_bytes(count: int | None) -> str:
    """Format a number of bytes for people."""
    if count is None:
        return "does not fit"
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"


def print_comparisons(comparisons: Sequence[Any], reference: str) -> None:
    """Print how runs differ from the first one."""
    rows = [
        [
            item.task,
            item.metric,
            item.run,
            f"{item.reference_score:.4f}",
            f"{item.score:.4f}",
            f"{item.difference.difference:+.4f}",
            f"{item.difference.low:+.4f} … {item.difference.high:+.4f}",
            f"{item.difference.p_value:.3f}",
        ]
        for item in comparisons
    ]
    print_table(["task", "metric", "run", reference, "score", "difference", "95 % interval", "p"], rows)


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a table on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    # A pipe or a file has no width: there, nothing is wrapped and each row stays on one line.
    width = None if sys.stdout.isatty() else 10_000
    console = Console(markup=False, emoji=False, highlight=False, width=width)
    console.print(table)


def is_first_process() -> bool:
    """Return whether this process prints: it is the only one, or the first that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def how_to_continue(stop: StoppedError) -> str:
    """Return the command that continues what was stopped, as this process was started."""
    if stop.verb in ("reproduce", "submit"):
        return "Continue with the same command."
    processes, folder = os.environ.get("LOCAL_WORLD_SIZE"), shlex.quote(str(stop.folder))
    command = f"torchrun --nproc-per-node {processes} -m palbert" if processes else "palbert"
    return f"Continue with: {command} {stop.verb} {folder}/recipe.toml --out {folder} --resume"


def print_error(message: str, hint: str | None) -> None:
    """Print on stderr what went wrong and what to do about it."""
    typer.echo(f"error: {message}", err=True)
    if hint:
        typer.echo(f"  {hint}", err=True)


def log_to_terminal() -> None:
    """Show palbert's log on stderr, above any progress bar."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from palbert.runtime.progress import console  # rich is not imported before something is logged

            console().print(self.format(record), markup=False, soft_wrap=True)

    logger = logging.getLogger("palbert")
    logger.setLevel(logging.INFO if is_first_process() else logging.ERROR)
    logger.addHandler(Handler())
    logger.propagate = False
