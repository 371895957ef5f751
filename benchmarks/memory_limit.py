"""A limit on the memory of a child process, and how much of it the child took."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
MEBIBYTE = 2**20


def run_limited(command: Sequence[str], limit: int) -> str:
    """Run a command with at most `limit` bytes of memory; return by what means it was limited.

    A control group counts all that the system keeps for the process, pages of files included. Where none can be made,
    the limit is on the memory that the process writes to (RLIMIT_DATA).
    """
    group, means = _make_group(limit)
    started = subprocess.Popen(command, preexec_fn=lambda: _enter(group, limit))
    try:
        if started.wait():
            raise SystemExit(f"{' '.join(command)} ended with {started.returncode}.")
    finally:
        started.kill()
        started.wait()
        if group:
            group.rmdir()
    return means


def _make_group(limit: int) -> tuple[Path | None, str]:
    for parent, name in ((GROUPS / "memory", "memory.limit_in_bytes"), (GROUPS, "memory.max")):
        group = parent / f"palbert-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(str(limit))
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        return group, f"control group, {name}"
    return None, "RLIMIT_DATA"


def _enter(group: Path | None, limit: int) -> None:
    if group:
        (group / "cgroup.procs").write_text(str(os.getpid()))
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


class PeakMemory:
    """The most memory that this process has taken for itself since it began, looked at every few milliseconds.

    Pages of mapped files do not count: the system takes them back whenever it needs them.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.bytes = max(self.bytes, own_memory())


def own_memory() -> int:
    """Return the bytes that this process has taken for itself."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
