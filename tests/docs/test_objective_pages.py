"""The pages on objectives: the defaults in their tables are those of the classes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from palbert.registry import OBJECTIVES

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"
PAGES = {
    "smart.md": ("smart", "proximal"),
    "rdrop.md": ("rdrop",),
    "simcse.md": ("simcse", "supervised-simcse"),
    "swaps.md": ("swap-invariance",),
}


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
