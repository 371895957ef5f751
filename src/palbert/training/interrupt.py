"""Ctrl-C: the end of a run after the step under way."""

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
    """Let the first Ctrl-C end the run after the step under way; a second one ends it at once."""

    def stop(signum: int, frame: Any) -> None:
        log.warning("stopping after this step; press Ctrl-C again to stop at once")
        trainer.stopping = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        former = signal.signal(signal.SIGINT, stop)
    except ValueError:  # not in the main thread: the caller has its own way to stop
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
