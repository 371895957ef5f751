"""palbert export: a run, or its encoder, for other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from palbert.commands.arguments import Checkpoint, Force, RunOrEncoder, Trust
from palbert.terminal import say

To = Annotated[
    Literal["onnx", "transformers", "sentence-transformers", "cross-encoder"],
    typer.Option("--to", help="What to write."),
]
Out = Annotated[Path, typer.Option("--out", help="The folder to write.")]
Pooling = Annotated[
    Literal["mean", "cls"] | None, typer.Option(help="For an encoder. [that of all tasks, or else mean]")
]
TaskNames = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        help="The task; for a graph repeatable, all unless given. For an encoder, the task whose LoRA is merged.",
    ),
]
WithoutAdapters = Annotated[bool, typer.Option("--without-adapters", help="For an encoder: leave adapters out.")]
Numbers = Annotated[Literal["fp32", "int8"], typer.Option("--precision", help="For a graph: its numbers.")]
Check = Annotated[
    bool, typer.Option("--check/--no-check", help="Load the folder with the library; compare with palbert.")
]


def export(
    source: RunOrEncoder,
    out: Out,
    to: To = "sentence-transformers",
    task: TaskNames = None,
    pooling: Pooling = None,
    without_adapters: WithoutAdapters = False,
    precision: Numbers = "fp32",
    checkpoint: Checkpoint = None,
    check: Check = True,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Write a run, or its encoder, as a folder that another library loads.

    Example commands:

    palbert export runs/demo --to onnx --out exported/demo

    palbert export runs/demo --to onnx --task sst --precision int8 --out exported/sst

    palbert export runs/demo --to transformers --task sst --out exported/sst-model

    palbert export runs/demo --to sentence-transformers --out exported/vectors
    """
    from palbert.verbs.export import export as export_run

    done = export_run(
        source,
        out=out,
        to=to,
        checkpoint=checkpoint,
        task=task,
        pooling=pooling,
        without_adapters=without_adapters,
        precision=precision,
        check=check,
        force=force,
    )
    say(f"Written: {done.folder} ({done.form}, {done.content})")
    for line in done.lines or ("Not compared with palbert.",):
        say(line)
