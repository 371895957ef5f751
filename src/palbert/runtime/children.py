"""Children: how palbert starts Python again."""

from __future__ import annotations

import sys

OWN_PATH = "import sys; sys.path[:] = filter(None, sys.path)"


def python_command(code: str) -> list[str]:
    """Return the command that runs code in a child process.

    `python -c` and `python -m` take modules from the current folder, before all others: it may be a stranger's.
    """
    return [sys.executable, "-c", f"{OWN_PATH}\n{code}"]
