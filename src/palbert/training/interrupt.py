"""Ctrl-C and SIGTERM: end a run after the current step."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from palbert.training.trainer import Trainer

log = logging.getLogger(__name__)


@contextmanager
def stop_on_interrupt(trainer: Trainer) -> Iterator[None]:
    """Let the first Ctrl-C end the run after the current step, and the second at once.

    SIGTERM, by which clusters announce that a machine is taken away, ends it after the current step too. Launchers may
    send it several times, so another one changes nothing.
    """

    def stop(signum: int, frame: Any) -> None:
        if not trainer.stopping:
            log.warning("stopping after this step; press Ctrl-C again to stop at once")
        trainer.stopping = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return
    former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
