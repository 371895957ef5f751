"""The wheel: what palbert reads at run time is in it, not only in a clone."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "palbert"


def test_every_file_next_to_the_modules_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["palbert"]
    packed = {path for pattern in patterns for path in SOURCE.glob(pattern)}
    found = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert len(found) > 20 and found - packed == set()
