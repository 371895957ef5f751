"""palbert push: a run on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import Checkpoint, Run, Trust
from palbert.commands.card import Licence
from palbert.terminal import say

Repository = Annotated[str, typer.Argument(help="owner/name on the Hub; it is made if it is not there.")]
Private = Annotated[bool, typer.Option("--private", help="Make the repository private.")]
OwnCard = Annotated[Path | None, typer.Option("--card", help="A model card of your own. [as palbert card writes it]")]
Yes = Annotated[bool, typer.Option("--yes", help="Send it; otherwise, only show what would be sent.")]


def push(
    run: Run,
    repository: Repository,
    private: Private = False,
    licence: Licence = None,
    card: OwnCard = None,
    checkpoint: Checkpoint = None,
    yes: Yes = False,
    trust: Trust = False,
) -> None:
    """Send a run to the Hugging Face Hub in one commit, where palbert predict owner/name finds it.

    Example commands:

    palbert push runs/demo owner/demo --licence apache-2.0

    palbert push runs/demo owner/demo --licence apache-2.0 --private --yes
    """
    from palbert.verbs.push import push as push_run

    done = push_run(run, repository, yes=yes, private=private, checkpoint=checkpoint, licence=licence, card=card)
    if not done.sent:
        say(f"{done.card}\n{'-' * 60}\n")
    say(repr(done))
    if not done.sent:
        say("To send it, add --yes.")
