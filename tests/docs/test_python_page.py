"""The page on Python and notebooks: its code runs, from top to bottom, and shows what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import palbert

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "python.md").read_text("utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a current folder with the page's file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    texts = ("the film was good", "the film was bad", "a quiet day", "rain again and wind")
    rows = [{"review": f"{texts[number % 4]} {number}", "stars": number % 2} for number in range(60)]
    pd.DataFrame(rows).to_csv("reviews.csv", index=False)
    return tmp_path


def test_the_code_of_the_page_runs(folder: Path, tiny_encoder: Path) -> None:
    names: dict[str, Any] = {}
    for block in CODE:
        exec(compile(block.replace('"minilm"', repr(str(tiny_encoder))), "python.md", "exec"), names)
    run = names["run"]
    assert isinstance(run, palbert.Run) and "tone" in run._repr_html_()
    assert sorted(path.name for path in Path("runs").iterdir()) == ["longer", "tone", "with-dev"]
    assert (folder / "runs" / "tone" / "data" / "tone-train.jsonl").is_file()
    assert run.recipe.training.epochs == 3


def test_the_first_example_has_ten_lines() -> None:
    assert len([line for line in CODE[0].splitlines() if line.strip()]) <= 10
