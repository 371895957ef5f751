"""The commands of growth: their options, and what goes wrong before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize("verb", ["add-task", "remove-task", "merge"])
def test_help_has_an_example(verb: str, cli: Cli) -> None:
    result = cli(verb, "--help")
    assert result.code == 0 and f"palbert {verb} runs/" in result.out


def test_folders_without_runs_are_refused(tmp_path: Path, cli: Cli) -> None:
    for arguments in (("add-task", tmp_path / "a", "new.toml"), ("remove-task", tmp_path / "a", "sst"),
                      ("merge", tmp_path / "a", tmp_path / "b")):  # fmt: skip
        result = cli(*arguments, "--out", tmp_path / "out")
        assert result.code == 2 and "there is no run here" in result.err
        assert not (tmp_path / "out").exists()
