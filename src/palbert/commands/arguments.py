"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

RecipeName = Annotated[str, typer.Argument(help="A recipe file, the name of a built-in recipe, or a data file.")]
Run = Annotated[Path, typer.Argument(help="A run folder.")]
RunOrEncoder = Annotated[str, typer.Argument(help="A run folder, or an encoder: minilm, a folder or a Hub id.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as training.epochs=5; repeatable."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The run folder. [runs/RECIPE]")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue what was stopped in that folder.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Checkpoint = Annotated[str | None, typer.Option(help="best, last or best-TASK. [best]")]
Split = Annotated[Literal["train", "dev", "test"], typer.Option(help="Which rows.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
