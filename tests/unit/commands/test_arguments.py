"""Shared arguments: one name means the same thing for every verb that has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest

from palbert.cli import VERBS
from palbert.commands import arguments

COMMANDS = [verb for verbs in VERBS.values() for verb in verbs]
SHARED = {
    "overrides": arguments.Overrides,
    "resume": arguments.Resume,
    "force": arguments.Force,
    "checkpoint": arguments.Checkpoint,
    "as_json": arguments.Json,
    "run": (arguments.Run, arguments.RunOrHub),
    "recipe": arguments.RecipeName,
}


def definitions_of(name: str) -> tuple[Any, ...]:
    """Return the definitions of a parameter: verbs that use a run take it from the Hub too."""
    shared = SHARED[name]
    return shared if isinstance(shared, tuple) else (shared,)


def option_of(hint: Any) -> Any:
    return get_args(hint)[1]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_verbs_use_the_shared_definition_of_a_parameter(command: Callable[..., Any]) -> None:
    hints = get_type_hints(command, include_extras=True)
    for name in inspect.signature(command).parameters:
        if name in SHARED:
            assert hints[name] in definitions_of(name), f"{command.__name__} defines its own {name}"


@pytest.mark.parametrize("name", SHARED)
def test_every_shared_parameter_has_a_help_text(name: str) -> None:
    for definition in definitions_of(name):
        assert option_of(definition).help.endswith((".", "]"))


def test_a_split_is_one_of_three() -> None:
    assert get_args(get_args(arguments.Split)[0]) == ("train", "dev", "test")


def test_the_options_have_the_names_that_scripts_use(cli: Callable[..., Any]) -> None:
    for verb, names in (("train", ["--set", "--out", "--resume", "--force"]), ("evaluate", ["--checkpoint", "--json"])):
        shown = cli(verb, "--help").out
        assert [name for name in names if f" {name} " not in shown] == []
