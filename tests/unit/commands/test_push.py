"""The command push: what it shows, and wrong arguments. What is sent is tested with the verb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


def test_the_help_has_an_example(cli: Cli) -> None:
    result = cli("push", "--help")
    assert result.code == 0 and "palbert push runs/demo owner/demo" in result.out


def test_the_card_comes_before_the_list_of_files(trained: Path, cli: Cli) -> None:
    result = cli("push", trained, "owner/demo", "--licence", "apache-2.0")
    assert result.code == 0, result.err
    assert result.out.index("license: apache-2.0") < result.out.index("# owner/demo") < result.out.index("file   ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["demo"], "cannot be a repository"),
        (["owner/demo", "--licence", "All rights!"], "expected the identifier of a licence"),
        (["owner/demo", "--checkpoint", "none"], "no checkpoint 'none'"),
        (["owner/demo", "--card", "absent.md"], "cannot be read"),
    ],
)
def test_wrong_arguments_are_the_users(arguments: list[str], problem: str, trained: Path, cli: Cli) -> None:
    result = cli("push", trained, *arguments)
    assert result.code == 2 and problem in result.err and result.out == ""


def test_a_folder_without_a_run_is_refused(tmp_path: Path, tiny_encoder: Path, cli: Cli) -> None:
    for folder in (tmp_path / "absent", tiny_encoder, tmp_path):
        result = cli("push", folder, "owner/demo")
        assert result.code == 2 and "Give the folder of a run" in result.err
