"""A schedule that does something to its process at one step of one rank, as PALBERT_FAULT says."""

from __future__ import annotations

import os
import signal

from palbert.extend import Schedule


class Faulty(Schedule):
    """Constant; `PALBERT_FAULT="KILL 1 4"` kills rank 1 before its step 4, in the first attempt only."""

    def __call__(self, step: int, total: int) -> float:
        what, rank, when = os.environ.get("PALBERT_FAULT", "KILL nobody 0").split()
        first_attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if first_attempt and rank in ("any", os.environ.get("RANK")) and step == int(when):
            if what == "raise":
                raise KeyError("no such thing")
            number = getattr(signal, f"SIG{what[:4]}")
            if what.endswith(("-LAUNCHER", "-MACHINE")):
                os.kill(os.getppid(), number)
            if not what.endswith("-LAUNCHER"):
                os.kill(os.getpid(), number)
        return 1.0
