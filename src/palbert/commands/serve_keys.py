"""palbert serve key: add, list and remove the API keys of a service."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from palbert.terminal import print_table, say

key_app = typer.Typer(
    no_args_is_help=True,
    help="Add, list and remove API keys.\n\nExample:  palbert serve key add website",
)

File = Annotated[
    Path | None, typer.Option("--keys", help="The file of keys. [$PALBERT_KEYS, or ~/.config/palbert/keys.json]")
]
Name = Annotated[str, typer.Argument(help="Who the key is for: letters, digits and . _ @ -")]


@key_app.command("add")
def add(
    name: Name,
    keys: File = None,
    days: Annotated[int | None, typer.Option(min=1, help="The key expires after so many days. [never]")] = None,
) -> None:
    """Make a key and print its secret, which is shown this once and kept nowhere.

    Example:  palbert serve key add website --days 365
    """
    from palbert.serving.keys import add_key, default_path

    path = keys or default_path()
    secret = add_key(path, name, days=days)
    logging.getLogger(__name__).info("Key '%s' added to %s. Its secret is shown only now:", name, path)
    say(secret)


@key_app.command("list")
def list_keys(keys: File = None) -> None:
    """List names, with when each key was made and when it expires.

    Example:  palbert serve key list
    """
    from palbert.serving.keys import default_path, read_keys

    found = read_keys(keys or default_path())
    print_table(["name", "created", "expires"], [[key.name, key.created, key.expires or "never"] for key in found])


@key_app.command("remove")
def remove(name: Name, keys: File = None) -> None:
    """Remove a key; servers refuse it within about a second.

    Example:  palbert serve key remove website
    """
    from palbert.serving.keys import default_path, remove_key

    path = keys or default_path()
    remove_key(path, name)
    logging.getLogger(__name__).info("Key '%s' removed from %s", name, path)
