"""palbert submit: prediction files to hand in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from palbert.errors import PalbertError
from palbert.terminal import print_table


def submit(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    test: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this annotation on Python 3.10
        typer.Option(
            "--test",
            metavar="DIR | TASK=FILE",
            help="A folder with the course's test files, or the file of one task; repeatable. [the run's own]",
        ),
    ] = None,
    task: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--task", "-t", help="A task to predict; repeatable. [all of the run]"),
    ] = None,
    split: Annotated[
        Literal["dev", "test"], typer.Option(help="Whose files are looked for and named in the output.")
    ] = "test",
    out: Annotated[Optional[Path], typer.Option("--out", help="Where to write. [RUN/submission]")] = None,  # noqa: UP045
    with_dev: Annotated[
        bool,
        typer.Option("--with-dev", help="Train anew on train and dev together first, into RUN-with-dev."),
    ] = False,
    checkpoint: Annotated[Optional[str], typer.Option(help="best, last, best-TASK. [best]")] = None,  # noqa: UP045
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Predict the test sets of a run's tasks: one file a task, in the course's form and as plain CSV.

    Examples:
    palbert submit runs/mine --test data

    palbert submit runs/mine --test data --test quora=quora-dev.csv --out handed-in

    palbert submit runs/mine --test data --with-dev
    """
    folder, files = _places(test or [])
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
        force=force,
    )
    rows = [[name, f"{done.rows[name]:,}", str(file)] for name, written in done.files.items() for file in written]
    print_table(["task", "rows", "file"], rows)


def _places(given: list[str]) -> tuple[str | None, dict[str, str]]:
    """Tell the folder from the files of single tasks."""
    folders = [item for item in given if "=" not in item or Path(item).is_dir()]
    if len(folders) > 1:
        raise PalbertError(
            f"--test: expected one folder, found {len(folders)}.", hint="Name single files as --test task=FILE."
        )
    files = dict(item.split("=", 1) for item in given if item not in folders)
    return (folders[0] if folders else None), files
