"""Ctrl-C: end a run after the current step."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from palbert.training.trainer import Trainer

log = logging.getLogger(__name__)


@contextmanager
def stop_on_interrupt(trainer: Trainer) -> Iterator[None]:
    """Let the first Ctrl-C end the run after the current step, and the second at once."""

    def stop(signum: int, frame: Any) -> None:
        log.warning("stopping after this step; press Ctrl-C again to stop at once")
        trainer.stopping = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        former = signal.signal(signal.SIGINT, stop)
    except ValueError:  # signals can only be handled in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
