"""palbert submit: prediction files to hand in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from palbert.commands.arguments import Checkpoint, Force, Run, SpreadsheetSafe, Trust
from palbert.errors import PalbertError
from palbert.terminal import print_table

Test = Annotated[
    list[str] | None,
    typer.Option(
        "--test",
        metavar="DIR | TASK=FILE",
        help="A folder with the course's test files, or the file of one task; repeatable. [the run's own]",
    ),
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", "-t", help="A task to predict; repeatable. [all tasks of the run]")
]
Split = Annotated[
    Literal["dev", "test"],
    typer.Option(help="The split to predict: decides which files are read and written."),
]


def submit(
    run: Run,
    test: Test = None,
    task: Tasks = None,
    split: Split = "test",
    out: Annotated[Path | None, typer.Option("--out", help="The folder to write. [RUN/submission]")] = None,
    with_dev: Annotated[
        bool,
        typer.Option("--with-dev", help="First train again on train and dev together, in RUN-with-dev."),
    ] = False,
    checkpoint: Checkpoint = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Predict the test sets of a run: one file per task, in the course's format and as plain CSV.

    Example commands:

    palbert submit runs/mine --test data

    palbert submit runs/mine --test data --test quora=quora-dev.csv --out handed-in

    palbert submit runs/mine --test data --with-dev
    """
    folder, files = _folder_and_files(test or [])
    from palbert.reproduction.submit import submit as submit_run

    done = submit_run(
        run,
        test=folder,
        files=files,
        tasks=task or (),
        split=split,
        out=out,
        with_dev=with_dev,
        checkpoint=checkpoint,
        spreadsheet_safe=spreadsheet_safe,
        force=force,
    )
    rows = [[name, f"{done.rows[name]:,}", str(file)] for name, written in done.files.items() for file in written]
    print_table(["task", "rows", "file"], rows)


def _folder_and_files(given: list[str]) -> tuple[str | None, dict[str, str]]:
    """Split the values of --test into the folder and the files of single tasks."""
    folders = [item for item in given if "=" not in item or Path(item).is_dir()]
    if len(folders) > 1:
        raise PalbertError(
            f"--test: expected one folder, found {len(folders)}.", hint="Name single files as --test task=FILE."
        )
    files = dict(item.split("=", 1) for item in given if item not in folders)
    return (folders[0] if folders else None), files
