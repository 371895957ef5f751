"""Stop signals: SIGTERM, as schedulers send it, ends work like Ctrl-C, so that nothing half-written is left."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM while the block runs."""

    def stop(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        former = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # signals can only be handled in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
