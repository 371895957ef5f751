"""The concept pages: their recipes are right, and no named method is missing from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from palbert.build import check_names
from palbert.recipe.load import make_recipe
from palbert.registry import AVERAGES, BALANCES, GRADIENTS, SAMPLERS, SCHEDULES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"
METHODS: dict[str, Mapping[str, Any]] = {
    "averaging.md": AVERAGES,
    "balancing.md": BALANCES,
    "gradient-methods.md": GRADIENTS,
    "samplers.md": SAMPLERS,
    "schedules.md": SCHEDULES,
}
SNIPPETS = [
    (page.name, snippet)
    for page in sorted(CONCEPTS.glob("*.md"))
    for snippet in re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
]


@pytest.mark.parametrize(("page", "snippet"), SNIPPETS)
def test_a_recipe_on_a_page_is_valid(page: str, snippet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = tomllib.loads(snippet)
    tasks = {"quora": {}, "sst": {}, "sts": {}, **values.pop("tasks", {})}
    monkeypatch.setattr("palbert.build.check.check_teachers", lambda recipe: None)  # the pages' runs are not here
    values.setdefault("adapters", "low-rank")
    check_names(make_recipe({"data": "samples", **values, "tasks": tasks}, check_files=False))


@pytest.mark.parametrize("page", METHODS)
def test_a_page_names_every_method(page: str) -> None:
    text = (CONCEPTS / page).read_text("utf-8")
    assert [name for name in METHODS[page] if f"| `{name}`" not in text] == []
