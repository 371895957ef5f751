"""palbert tune: better settings for a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import Force, Overrides, RecipeName, Resume, Trust
from palbert.errors import PalbertError
from palbert.terminal import say

SpaceFile = Annotated[
    Path | None,
    typer.Option("--space", help="A TOML file with what is searched. [settings that matter for most recipes]"),
]
Trials = Annotated[int, typer.Option("--trials", help="How many settings to try; with --resume, in all.", min=1)]
Time = Annotated[
    str | None, typer.Option("--time", help="A limit such as 2h: no trial starts that would not end within it.")
]
Jobs = Annotated[int, typer.Option("--jobs", help="Runs at a time.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the settings that are tried.", min=0)]
Keep = Annotated[
    str, typer.Option("--keep", help="Of how many best trials the checkpoints are kept: a number, or all.")
]
Confirm = Annotated[
    int, typer.Option("--confirm", help="Fresh seeds for the best settings and the recipe as it is; 0 for none.", min=0)
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder of the search. [runs/RECIPE-tuned]")]


def tune(
    recipe: RecipeName,
    space: SpaceFile = None,
    trials: Trials = 40,
    time: Time = None,
    jobs: Jobs = 1,
    seed: Seed = 0,
    keep: Keep = "3",
    confirm: Confirm = 3,
    overrides: Overrides = None,
    out: Out = None,
    resume: Resume = False,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Search for better settings of a recipe, and show how much better they are.

    Example commands:

    palbert tune my.toml --trials 40 --jobs 4 --out runs/mine-tuned

    palbert tune my.toml --space space.toml --time 2h

    palbert tune my.toml --out runs/mine-tuned --resume

    palbert train runs/mine-tuned/best.toml
    """
    if not (keep == "all" or keep.isdecimal()):
        raise PalbertError(f"--keep: expected a number or all, found '{keep}'.")
    from palbert.verbs.tune import tune as tune_recipe

    found = tune_recipe(
        recipe,
        space=space,
        trials=trials,
        time=time,
        jobs=jobs,
        seed=seed,
        keep=None if keep == "all" else int(keep),
        confirm=confirm,
        out=out,
        resume=resume,
        force=force,
        overrides=overrides or (),
    )
    say(repr(found))
