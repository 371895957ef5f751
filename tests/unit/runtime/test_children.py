"""Children: code runs with the modules of this process, wherever it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from palbert.runtime.children import python_command


def test_a_child_takes_no_module_from_the_current_folder(tmp_path: Path) -> None:
    for name in ("json", "torch", "palbert"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder ran')")
    code = "import json, palbert\nprint(json.dumps(sys.argv[1:]), palbert.__name__)"
    done = subprocess.run(
        [*python_command(code), "a"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, '["a"] palbert\n', "")
