"""Fixtures of the tests of recipes: small data files, and the lines that a recipe is refused with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]


@pytest.fixture
def refusal() -> Refusal:
    """Return a function that gives the lines that a recipe is refused with."""

    def lines(values: dict[str, Any]) -> list[str]:
        with pytest.raises(RecipeError) as caught:
            make_recipe(values, name="my.toml")
        return str(caught.value).splitlines()

    return lines


@pytest.fixture
def write() -> WriteFile:
    """Return a function that writes a recipe file."""

    def write_file(folder: Path, text: str, name: str = "my.toml") -> Path:
        (folder / name).write_text(text, "utf-8")
        return folder / name

    return write_file


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    """Make a folder with small files of several kinds."""
    for name in ("train.csv", "dev.csv", "more.tsv"):
        (tmp_path / name).write_text("a,b,score\nx,y,1\n")
    return tmp_path
