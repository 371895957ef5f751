"""palbert evaluate and compare: what a run has learned, and how runs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import Checkpoint, Json, Reading, RunOrHub, Split, SpreadsheetSafe, Trust, file_settings
from palbert.errors import PalbertError
from palbert.terminal import print_comparisons, print_summary, say

Test = Annotated[
    list[str] | None,
    typer.Option(
        "--test",
        metavar="TASK=FILE",
        help="Score a task on another labelled file; repeatable. FILE alone if the run has one task.",
    ),
]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="A text column of these files; twice for pairs. [as in training]")
]
Label = Annotated[str | None, typer.Option("--label", help="The label column of these files. [as in training]")]
Name = Annotated[str | None, typer.Option("--name", help="Write to RUN/evaluations/NAME. [the names of the files]")]


def evaluate(
    run: RunOrHub,
    split: Split = "dev",
    test: Test = None,
    column: Columns = None,
    label: Label = None,
    read: Reading = None,
    name: Name = None,
    checkpoint: Checkpoint = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Score a run on a split, or on other labelled files; write its predictions and a report.

    Example commands:

    palbert evaluate runs/demo --split dev

    palbert evaluate runs/demo --test sst=reviews.csv --column review --label stars
    """
    if not test and (column or label or read or name):
        raise PalbertError(
            "--column, --label, --read and --name describe the files of --test.", hint="Add --test TASK=FILE."
        )
    from palbert.verbs.evaluate import evaluate as evaluate_run

    report = evaluate_run(
        run,
        split=split,
        checkpoint=checkpoint,
        data=_files_by_task(run, test) if test else None,
        text=column or (),
        label=label,
        settings=file_settings(read),
        name=name,
        spreadsheet_safe=spreadsheet_safe,
    )
    if as_json:
        say(json.dumps(report.summary, ensure_ascii=False))
    else:
        print_summary(report.summary)
        say(f"\nCheckpoint: {report.summary['checkpoint']}\nReport: {report.page}")


def _files_by_task(run: Path, given: list[str]) -> dict[str, list[str]]:
    """Return the files of each task; a file alone belongs to the only task of a run."""
    from palbert.recipe.load import load_run_recipe
    from palbert.runtime.run_folder import RunFolder
    from palbert.verbs.hub_run import locate

    files: dict[str, list[str]] = {}
    for item in given:
        task, equals, file = item.partition("=")
        if not equals or Path(item).is_file():
            tasks = list(load_run_recipe(RunFolder(locate(run)).recipe).tasks)
            if len(tasks) != 1:
                raise PalbertError(f"--test {item}: which task?", hint=f"Write TASK={item}: {', '.join(tasks)}.")
            [task], file = tasks, item
        files.setdefault(task, []).append(file)
    return files


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; all are compared with the first.")],
    split: Split = "dev",
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Compare runs on the same rows by paired bootstrap.

    Example:  palbert compare runs/plain runs/annealed
    """
    from dataclasses import asdict

    from palbert.verbs.compare import compare as compare_runs

    comparisons = compare_runs(runs, split=split)
    if as_json:
        say(json.dumps([asdict(item) for item in comparisons]))
        return
    print_comparisons(comparisons, str(runs[0]))
