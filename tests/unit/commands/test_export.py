"""palbert export: what is printed, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("on_cpu")

Cli = Callable[..., Any]


def test_export_says_what_was_written_and_that_it_was_not_checked(trained: Path, tmp_path: Path, cli: Cli) -> None:
    asked = ("export", trained, "--to", "transformers", "--out", tmp_path / "out", "--no-check")
    result = cli(*asked)
    assert result.code == 0
    assert result.out == f"Written: {tmp_path / 'out'} (transformers, pooling mean)\nNot compared with palbert.\n"
    again = cli(*asked)
    assert again.code == 2 and "holds an export already" in again.err
    assert cli(*asked, "--force").code == 0


def test_export_refuses_a_folder_without_a_run(tmp_path: Path, cli: Cli) -> None:
    result = cli("export", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert result.code == 2 and "no such folder" in result.err
