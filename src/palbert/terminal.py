"""What the terminal shows: tables and answers on stdout, errors and the log on stderr."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import typer


def shown_answer(answer: str | float, probabilities: dict[str, float] | None) -> str:
    """Write an answer in one line, likely classes first."""
    if probabilities is None:
        return f"{answer:.2f}"
    ordered = sorted(probabilities.items(), key=lambda item: -item[1])
    return f"{answer}  ({', '.join(f'{name} {share:.3f}' for name, share in ordered)})"


def print_summary(summary: dict[str, Any]) -> None:
    """Print the content of a report.json: scores beside the baselines."""
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


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a table on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    # A pipe or a file has no width: nothing is wrapped there, and each row stays one line.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
    console.print(table)


def is_first_process() -> bool:
    """Whether this process speaks: the only one, or the first of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def started_as() -> str:
    """Return the command that palbert was started with, to be started again."""
    processes = os.environ.get("LOCAL_WORLD_SIZE")
    return f"torchrun --nproc-per-node {processes} -m palbert" if processes else "palbert"


def complain(message: str, hint: str | None) -> None:
    """Say on stderr what went wrong, and what to do about it."""
    typer.echo(f"error: {message}", err=True)
    if hint:
        typer.echo(f"  {hint}", err=True)


def log_to_terminal() -> None:
    """Show palbert's log on stderr, above any progress bar."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from palbert.runtime.progress import console  # rich is not needed before something is said

            console().print(self.format(record), markup=False, soft_wrap=True)

    logger = logging.getLogger("palbert")
    logger.setLevel(logging.INFO if is_first_process() else logging.ERROR)
    logger.addHandler(Handler())
    logger.propagate = False
