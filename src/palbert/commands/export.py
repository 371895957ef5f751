"""palbert export: the encoder of a run for other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from palbert.commands.arguments import Checkpoint, Force, RunOrEncoder, Trust
from palbert.terminal import say

To = Annotated[Literal["transformers", "sentence-transformers"], typer.Option("--to", help="The library.")]
Out = Annotated[Path, typer.Option("--out", help="The folder to write.")]
Pooling = Annotated[
    Literal["mean", "cls"] | None, typer.Option(help="For sentence-transformers. [that of all tasks, or else mean]")
]
TaskName = Annotated[
    str | None, typer.Option("--task", "-t", help="The task whose LoRA is merged, where tasks have their own.")
]
WithoutAdapters = Annotated[bool, typer.Option("--without-adapters", help="Leave the run's adapters out.")]
Check = Annotated[bool, typer.Option("--check/--no-check", help="Load the folder with the library; compare vectors.")]


def export(
    source: RunOrEncoder,
    out: Out,
    to: To = "sentence-transformers",
    pooling: Pooling = None,
    task: TaskName = None,
    without_adapters: WithoutAdapters = False,
    checkpoint: Checkpoint = None,
    check: Check = True,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Write the encoder of a run as a folder that transformers or sentence-transformers loads.

    Example commands:

    palbert export runs/demo --to sentence-transformers --out exported/demo

    palbert export runs/demo --to transformers --out exported/demo --checkpoint last
    """
    from palbert.verbs.export import export as export_run

    done = export_run(
        source,
        out=out,
        to=to,
        checkpoint=checkpoint,
        pooling=pooling,
        task=task,
        without_adapters=without_adapters,
        check=check,
        force=force,
    )
    say(f"Written: {done.folder} ({done.form}, pooling {done.pooling})")
    if done.difference is None:
        say("Vectors were not compared.")
    else:
        say(f"{done.form} gives the same vectors as palbert, up to {done.difference:.1e}.")
