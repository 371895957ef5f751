"""palbert card: the model card of a run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import Checkpoint, Force, Run, Trust
from palbert.terminal import say

log = logging.getLogger(__name__)

Out = Annotated[Path | None, typer.Option("--out", help="The Markdown file to write. [standard output]")]
Name = Annotated[str | None, typer.Option("--name", help="What users will call it: owner/name. [the run folder's]")]
Licence = Annotated[str | None, typer.Option("--licence", "--license", help="The model's licence, such as apache-2.0.")]
Examples = Annotated[int, typer.Option(min=0, help="Quote so many of the worst errors per task: texts of your data.")]
Alone = Annotated[list[Path] | None, typer.Option(help="A run of one task alone, to compare with; repeatable.")]
Watts = Annotated[float | None, typer.Option(min=0, help="The power of the machine. [100 with a CPU, 400 with CUDA]")]
Grid = Annotated[float | None, typer.Option(min=0, help="Grams of CO2 equivalents per kWh. [480]")]


def card(
    run: Run,
    out: Out = None,
    name: Name = None,
    licence: Licence = None,
    examples: Examples = 0,
    alone: Alone = None,
    watts: Watts = None,
    grid: Grid = None,
    checkpoint: Checkpoint = None,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Write the model card of a run: what it is for, its data, scores and failings, with the Hub's metadata.

    Example commands:

    palbert card runs/demo

    palbert card runs/demo --alone runs/sst --alone runs/sts

    palbert card runs/demo --out card.md --name owner/demo --licence apache-2.0 --watts 65 --grid 56
    """
    from palbert.verbs.card import card as card_of_run

    text = card_of_run(
        run,
        out=out,
        checkpoint=checkpoint,
        name=name,
        licence=licence,
        examples=examples,
        alone=alone or (),
        watts=watts,
        grid=grid,
        force=force,
    )
    if out is None:
        say(text)
    else:
        log.info("Written: %s", out)
