"""Child processes: forked from a process that has imported everything, so that each starts at once."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KILLED = 137
"""The exit code of a child that ended itself as SIGKILL would end it."""
SLOWEST = 120
"""Seconds of the processor after which a child hangs; on a busy machine they are many more of the clock."""
LONGEST = 1200
"""Seconds of the clock after which a child hangs, whatever it computed: it may wait for something that never comes."""
MEMORY = 4 << 30
"""Bytes that a child may use in addition to what it starts with."""


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    code: int
    """Its exit code, negative for a signal; KILLED where it was killed on purpose."""
    value: Any
    """What its function returned; None if it did not end."""
    said: str
    """What it printed to stderr."""


def warm_up() -> None:
    """Import all of palbert, and what torch only imports when an optimizer is made."""
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # reports without plots take half the time
    import palbert

    for module in pkgutil.walk_packages(palbert.__path__, "palbert."):
        if "kernels" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    for name in ("torch._dynamo", "torch.testing", "pyarrow.parquet", "openpyxl", "encodings.utf_8_sig"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # otherwise the first collection in each child copies all of this memory


class Child:
    """A forked process that calls a function.

    Args:
        function: What it does; its result must be JSON. The child exits without any clean-up afterwards.
        folder: Where its output goes; it becomes its current folder.
        environment: Variables that are set in it.
    """

    def __init__(self, function: Callable[[], Any], folder: Path, environment: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, self.name = _temporary_file(folder)
        self._result, write = os.pipe()
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._result)
            _run(function, folder, environment or {}, descriptor, write)
        os.close(write)
        os.close(descriptor)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, slowest: float = SLOWEST, longest: float = LONGEST) -> Ended:
        """Wait until it has ended; a child that hangs is killed and ends with the code of SIGALRM."""
        content, hung = b"", False
        while True:
            left = min(slowest - self._computed(), self.started + longest - time.monotonic())
            hung = left <= 0
            if hung:
                self.kill()
                break
            ready, _, _ = select.select([self._result], [], [], left)  # it cannot compute more than that on one core
            if not ready:
                continue
            part = os.read(self._result, 1 << 16)
            if not part:
                break
            content += part
        _, status = os.waitpid(self.pid, 0)
        os.close(self._result)
        said = Path(self.name).read_text("utf-8", errors="replace")
        os.unlink(self.name)
        code = -signal.SIGALRM if hung else os.waitstatus_to_exitcode(status)
        return Ended(code, json.loads(content) if content and code == 0 else None, said)

    def _computed(self) -> float:
        """Return the seconds of the processor that it has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def call(function: Callable[[], Any], folder: Path, environment: dict[str, str] | None = None) -> Ended:
    """Call a function in a child, and wait for it."""
    return Child(function, folder, environment).wait()


def _temporary_file(folder: Path) -> tuple[int, str]:
    import tempfile

    return tempfile.mkstemp(prefix="said-", dir=folder.parent)


def _run(function: Callable[[], Any], folder: Path, environment: dict[str, str], said: int, write: int) -> None:
    """Do what a child does; never return."""
    code = 1
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        faulthandler.enable(2)
        os.environ.update(environment)
        os.chdir(folder)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        os.write(write, json.dumps(function()).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
