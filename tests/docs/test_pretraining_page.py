"""The page on further pretraining: its recipes are valid, and its defaults are those of the recipe."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from palbert.build import check_names
from palbert.recipe.load import make_recipe
from palbert.recipe.sections import PretrainingSection
from palbert.tasks.choices import Component

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = (Path(__file__).parents[2] / "docs" / "concepts" / "pretraining.md").read_text("utf-8")
WORDS = {"text": "none", "steps_per_epoch": "one pass"}
"""Defaults that the page gives in words."""


@pytest.mark.parametrize("snippet", re.findall(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL))
def test_a_recipe_on_the_page_is_valid(snippet: str, tmp_path: Path) -> None:
    (tmp_path / "reviews.txt").write_text("a quiet triumph\n")
    values = tomllib.loads(snippet)
    recipe = make_recipe({"data": "samples", "tasks": ["sst"], **values}, folder=tmp_path)
    check_names(recipe)
    assert recipe.pretraining and recipe.pretraining.text == (str(tmp_path / "reviews.txt"),)


def test_the_page_gives_every_option_with_its_default() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", TEXT, flags=re.MULTILINE))
    section = PretrainingSection()
    assert list(shown) == list(PretrainingSection.model_fields)
    for name, given in shown.items():
        default = getattr(section, name)
        if name in WORDS:
            assert given == WORDS[name] and not default
        else:
            assert given == default.name if isinstance(default, Component) else float(given) == default
