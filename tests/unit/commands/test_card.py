"""The command card: to standard output or a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


def test_the_card_goes_to_standard_output_or_to_a_file(trained: Path, tmp_path: Path, cli: Cli) -> None:
    shown = cli("card", trained, "--name", "owner/demo")
    assert shown.code == 0 and shown.out.startswith("---\n") and shown.err == ""
    file = tmp_path / "cards" / "card.md"
    written = cli("card", trained, "--name", "owner/demo", "--out", file)
    assert written.code == 0 and written.out == "" and f"Written: {file}" in written.err.replace("\n", "")
    assert file.read_text("utf-8").strip() == shown.out.strip()
    again = cli("card", trained, "--out", file)
    assert again.code == 2 and "already exists" in again.err
    assert cli("card", trained, "--out", file, "--force").code == 0


@pytest.mark.parametrize("option", [["--watts", "-1"], ["--grid", "much"], ["--examples", "-1"], ["--watts", "nan"]])
def test_numbers_must_make_sense(option: list[str], trained: Path, cli: Cli) -> None:
    assert cli("card", trained, *option).code == 2
