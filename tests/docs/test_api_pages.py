"""The API pages: no public name is missing from them, and they name nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import palbert
import palbert.extend

API = Path(__file__).parents[2] / "docs" / "api"


def named(page: str) -> list[str]:
    """Return what a page takes from the docstrings, in order."""
    return re.findall(r"^::: (\S+)", (API / page).read_text("utf-8"), flags=re.MULTILINE)


def test_every_public_name_is_on_the_page() -> None:
    errors = {name for name in palbert.__all__ if name.endswith("Error")}  # on their own page
    assert sorted(named("README.md")) == [f"palbert.{name}" for name in sorted(set(palbert.__all__) - errors)]


def test_every_base_class_is_on_the_page() -> None:
    assert sorted(named("extend.md")) == [f"palbert.extend.{name}" for name in sorted(palbert.extend.__all__)]
