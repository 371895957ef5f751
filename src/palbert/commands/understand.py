"""palbert evaluate and compare: what a run has learned, and how runs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import Checkpoint, Json, Run, Split
from palbert.terminal import print_comparisons, print_summary


def evaluate(run: Run, split: Split = "dev", checkpoint: Checkpoint = None, as_json: Json = False) -> None:
    """Score a run on a split; write its predictions and a report.

    Example:  palbert evaluate runs/demo --split dev
    """
    from palbert.verbs.evaluate import evaluate as evaluate_run

    report = evaluate_run(run, split=split, checkpoint=checkpoint)
    if as_json:
        typer.echo(json.dumps(report.summary, ensure_ascii=False))
    else:
        print_summary(report.summary)
        typer.echo(f"\nCheckpoint: {report.summary['checkpoint']}\nReport: {report.page}")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; all are compared with the first.")],
    split: Split = "dev",
    as_json: Json = False,
) -> None:
    """Compare runs on the same rows by paired bootstrap.

    Example:  palbert compare runs/plain runs/annealed
    """
    from dataclasses import asdict

    from palbert.verbs.compare import compare as compare_runs

    comparisons = compare_runs(runs, split=split)
    if as_json:
        typer.echo(json.dumps([asdict(item) for item in comparisons]))
        return
    print_comparisons(comparisons, str(runs[0]))
