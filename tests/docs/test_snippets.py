"""All pages: what is written as TOML is TOML, and links between pages lead somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "recipes/results/README.md")
PAGES = [*(ROOT / page for page in OUTSIDE), *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = [
    pytest.param(snippet, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, snippet in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_toml_snippet_is_valid(snippet: str) -> None:
    assert tomllib.loads(snippet)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_to_existing_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
