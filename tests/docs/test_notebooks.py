"""The notebooks of examples/ run from top to bottom, with a tiny encoder in place of the real one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.fixture
def executed(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the notebook on the first hour in a copy of its folder; return it with its outputs."""
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))
    shutil.copyfile(EXAMPLES / "tickets.csv", tmp_path / "tickets.csv")
    notebook = nbformat.read(EXAMPLES / "first_hour.ipynb", as_version=4)
    first = notebook.cells[1]
    assert '"minilm"' in first.source
    first.source = first.source.replace('"minilm"', repr(str(tiny_encoder)))
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    return client.execute()


def test_the_first_hour_runs_and_shows_tables(executed: Any, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "tickets"
    assert json.loads((run / "report.json").read_text("utf-8"))["tasks"].keys() == {"topic", "hours"}
    shown = [
        output["data"]["text/html"]
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    ]
    assert any("linear probe" in html for html in shown)
    assert not any(output["output_type"] == "error" for cell in executed.cells for output in cell.get("outputs", []))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
