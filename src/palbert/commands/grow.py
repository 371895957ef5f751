"""palbert add-task, remove-task and merge: runs that are made from trained runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import AutoResume, Checkpoint, Force, Json, Overrides, Resume, Run, Trust
from palbert.terminal import is_first_process, print_summary, print_table, say

NewTasks = Annotated[
    Path, typer.Argument(help="A file with [tasks.NAME] as in a recipe, or a data file.", metavar="TASKS")
]
NewRun = Annotated[Path, typer.Option("--out", help="The folder of the new run.")]
Greedy = Annotated[
    bool,
    typer.Option("--greedy/--uniform", help="Add runs as long as the dev score does not fall, or average all runs."),
]


def add_task(
    run: Run,
    tasks: NewTasks,
    out: NewRun,
    overrides: Overrides = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    auto_resume: AutoResume = False,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Give a trained run one more task: its encoder and other tasks stay the same, bit for bit.

    Example commands:

    palbert add-task runs/demo topics.toml --out runs/with-topics

    palbert add-task runs/demo reviews.csv --out runs/with-reviews --set training.epochs=5
    """
    from palbert.verbs.add_task import add_task as add_tasks

    grown = add_tasks(
        run,
        tasks,
        out=out,
        checkpoint=checkpoint,
        resume="auto" if auto_resume else resume,
        force=force,
        overrides=overrides or (),
    )
    if is_first_process():
        print_summary(json.loads((grown / "report.json").read_text("utf-8")))
        say(f"\nReport: {grown / 'report.html'}")


def remove_task(
    run: Run,
    task: Annotated[str, typer.Argument(help="The task to leave out.")],
    out: NewRun,
    checkpoint: Checkpoint = None,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Write a run without one of its tasks: what remains is the same, bit for bit.

    Example:  palbert remove-task runs/with-topics topics --out runs/without-topics
    """
    from palbert.verbs.remove_task import remove_task as remove

    smaller = remove(run, task, out=out, checkpoint=checkpoint, force=force)
    say(f"Written: {smaller}, with {', '.join(smaller.recipe.tasks)}")


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Two or more runs of one recipe, such as several seeds.")],
    out: NewRun,
    greedy: Greedy = True,
    checkpoint: Checkpoint = None,
    as_json: Json = False,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Average the weights of runs that started from the same encoder, and show what that gives on dev.

    Example:  palbert merge runs/seed-0 runs/seed-1 runs/seed-2 --out runs/soup
    """
    from dataclasses import asdict

    from palbert.verbs.merge import merge as merge_runs

    merged = merge_runs(runs, out=out, greedy=greedy, checkpoint=checkpoint, force=force)
    if as_json:
        scores = [{**asdict(each.evaluation), "name": each.name, "kept": each.kept} for each in merged.scores]
        say(json.dumps({"run": str(merged.run), "method": merged.method, "scores": scores}, ensure_ascii=False))
        return
    print_table(list(merged.table.header), [list(row) for row in merged.table.rows])
    say(f"\n{merged.note}\nWritten: {merged.run} ({merged.method})")
