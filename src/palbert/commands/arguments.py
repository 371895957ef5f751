"""Arguments and options that several verbs share, and how some of them are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from palbert.errors import PalbertError
from palbert.registry.trust import trusting

if TYPE_CHECKING:
    from palbert.tasks.sources import FileSettings

RecipeName = Annotated[str, typer.Argument(help="A recipe file, the name of a built-in recipe, or a data file.")]
Run = Annotated[Path, typer.Argument(help="A run folder.")]
RunOrHub = Annotated[Path, typer.Argument(help="A run folder, or owner/name of a run on the Hugging Face Hub.")]
RunOrEncoder = Annotated[str, typer.Argument(help="A run, or an encoder: each a folder or a Hub id; or minilm.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as training.epochs=5; repeatable."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The run folder. [runs/RECIPE]")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue what was stopped in that folder.")]
AutoResume = Annotated[
    bool, typer.Option("--auto-resume", help="Continue the run in that folder if there is one, begin it otherwise.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Checkpoint = Annotated[str | None, typer.Option(help="best, last or best-TASK. [best]")]
Split = Annotated[Literal["train", "dev", "test"], typer.Option(help="Which rows.")]


def _trust(context: typer.Context, given: bool) -> bool:
    """Let the whole command import what runs and checkpoints name."""
    if given:
        context.with_resource(trusting())
    return given


Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run code from outside palbert that the run names.", callback=_trust),
]
SpreadsheetSafe = Annotated[
    bool, typer.Option("--spreadsheet-safe", help="Escape texts in CSV, TSV and Excel that may become formulas.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reading = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="KEY=VALUE",
        help="How the input is written: separator, encoding, header, sheet or quoting; repeatable. [as in training]",
    ),
]


def file_settings(given: list[str] | None) -> FileSettings:
    """Read settings of the form key=value; raise PalbertError for others."""
    from pydantic import ValidationError

    from palbert.recipe.explain import explain
    from palbert.recipe.overrides import apply_override
    from palbert.tasks.sources import FileSettings

    values: dict[str, Any] = {}
    for setting in given or ():
        apply_override(values, setting)
    try:
        return FileSettings.model_validate(values)
    except ValidationError as error:
        problems = explain(error.errors(), FileSettings)
        raise PalbertError("\n".join(f"--read {problem}" for problem in problems)) from None
