"""The pages on objectives: what they tell to write can be written, and their defaults are the classes' own."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

from palbert.build import check_names
from palbert.objectives.objectives import OBJECTIVES
from palbert.recipe.load import make_recipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"
PAGES = {"smart.md": ("smart", "proximal"), "rdrop.md": ("rdrop",), "simcse.md": ("simcse", "supervised-simcse")}
SNIPPETS = [
    (page, snippet)
    for page in PAGES
    for snippet in re.findall(r"```toml\n(.*?)```", (CONCEPTS / page).read_text("utf-8"), flags=re.DOTALL)
]


@pytest.mark.parametrize(("page", "snippet"), SNIPPETS)
def test_what_a_page_tells_to_write_can_be_written(page: str, snippet: str) -> None:
    values = tomllib.loads(snippet)
    tasks = {"sst": {}, "quora": {}, "sts": {}, **values.pop("tasks", {})}
    check_names(make_recipe({"data": "samples", "tasks": tasks, **values}, check_files=False))


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in PAGES.items() for name in names])
def test_a_page_gives_every_option_with_its_default(page: str, name: str) -> None:
    text = (CONCEPTS / page).read_text("utf-8")
    parameters = inspect.signature(OBJECTIVES[name]).parameters.values()
    for option in (parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY):
        shown = re.findall(rf'^\| `{option.name}` \| `?"?([^|`"]+?)"?`? \|', text, flags=re.MULTILINE)
        assert shown and all(_same(value, option.default) for value in shown), option.name


def _same(shown: str, default: object) -> bool:
    if default is None or isinstance(default, bool | str):
        return shown == str(default).lower()
    return float(shown) == default
