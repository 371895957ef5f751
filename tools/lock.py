"""Lock all runtime dependencies, with hashes, at the versions of constraints.txt: `make lock` writes two files.

requirements.lock has everything; requirements-cpu.lock leaves out torch and what only its CUDA build needs, for people
who take torch's CPU build from another index.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FULL, CPU = ROOT / "requirements.lock", ROOT / "requirements-cpu.lock"
LOADER = "sentence-transformers"
"""The one dependency of the embedded encoder, a loader that palbert does not use."""
CUDA = re.compile(r"(torch|triton|cuda-.*|nvidia-.*)$")
COMMAND = (
    *("uv", "pip", "compile", "pyproject.toml", "--extra", "all", "--extra", "minilm"),
    *("--constraint", "constraints.txt", "--universal", "--python-version", "3.10", "--no-python-downloads"),
    *("--generate-hashes", "--no-config", "--no-header", "--quiet", "--native-tls", "--index-strategy", "first-index"),
)
"""All releases of Python and all machines at once; no settings of this machine's pip or uv."""


def main() -> None:
    """Resolve once for each file; versions that are locked already stay where they can."""
    overrides = ROOT / "build" / "no-loader.txt"
    overrides.parent.mkdir(exist_ok=True)
    overrides.write_text(f"{LOADER}; python_version < '3'\n", "utf-8")
    lock(FULL, ["--override", str(overrides)])
    apart = sorted({name for name in re.findall(r"^([a-z0-9-]+)==", FULL.read_text("utf-8"), re.M) if CUDA.match(name)})
    without = [option for name in apart for option in ("--no-emit-package", name)]
    lock(CPU, ["--override", str(overrides), *without])


def lock(path: Path, options: list[str]) -> None:
    """Write one file, below a line that says what it is."""
    done = subprocess.run([*COMMAND, *options, "--output-file", str(path)], cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)
    first = "# Written by `make lock` from pyproject.toml and constraints.txt; see docs/guides/supply-chain.md.\n"
    path.write_text(first + path.read_text("utf-8"), "utf-8")


if __name__ == "__main__":
    main()
