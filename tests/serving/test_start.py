"""The start of a service: what is not imported, since everybody who starts one would wait for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.serving.processes import PATIENCE

LOAD = """
import sys
from pathlib import Path
import palbert.serving.app, palbert.serving.server
from palbert.serving.model import open_model
from palbert.serving.runs import warm_up

warm_up(open_model("mine", Path(sys.argv[1]), checkpoint=None, device="cpu", precision="auto", trust=False))
print(*(name for name in ("sympy", "torch._dynamo", "matplotlib", "sklearn", "transformers") if name in sys.modules))
"""
PARENT = """
import sys
import palbert.serving.workers
print(*(name for name in ("torch", "numpy", "pydantic") if name in sys.modules))
"""


def imported(program: str, *arguments: object) -> list[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.split()


def test_a_loaded_run_has_not_imported_large_libraries_that_it_does_not_need(made: Path) -> None:
    assert imported(LOAD, made) == []


def test_a_worker_imports_nothing_large_before_it_pauses_the_collector() -> None:
    assert imported(PARENT) == []
