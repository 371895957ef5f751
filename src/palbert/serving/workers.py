"""Workers: several processes that answer at one address, and the one that looks after them."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from socket import socket
from typing import Any

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from palbert.errors import PalbertError
from palbert.runtime.collector import pause_collector
from palbert.runtime.stop_signals import terminate_as_interrupt
from palbert.serving.settings import Settings
from palbert.terminal import log_to_terminal, print_error

SETTINGS, PLACE = "PALBERT_SERVE_SETTINGS", "PALBERT_SERVE_PLACE"
"""The environment variables by which a worker gets its settings, and its place among the others."""
AGAIN = "again"
"""The place of a worker that is started for one that has ended."""
LONGEST_PAUSE = 60.0
"""Seconds between two starts in the same place after many that failed; after the first one it is a second."""

log = logging.getLogger(__name__)


class Workers(Multiprocess):
    """uvicorn's processes. Those that end are replaced, unless none of them could ever answer.

    Args:
        config: uvicorn's settings; its app is `worker_app`.
        sockets: Where they listen.
        settings: The settings of each process.
        say_ready: Is called when all processes answer.
    """

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket], settings: Settings, say_ready: Callable[[], None]
    ) -> None:
        super().__init__(config, sockets)
        os.environ[SETTINGS] = json.dumps(asdict(settings), default=str)
        _reason().unlink(missing_ok=True)
        self.say_ready = say_ready
        self.failure: int | None = None
        """The exit code of the process for which all have to stop."""
        self._ready: set[int] = set()
        self._wanted: set[int] = set()
        """Processes that look for new checkpoints as soon as they are ready."""
        self._has_served = False
        self._begun: dict[int, float] = {}
        self._pause = dict.fromkeys(range(self.processes_num), 1.0)
        self._heard: dict[int, float] = {}

    def run(self) -> None:
        """Look after the processes until SIGTERM or Ctrl-C.

        Raises:
            PalbertError: The processes cannot start.
            KeyboardInterrupt: They were stopped while they loaded, as a single process is.
        """
        super().run()
        if self.failure is not None:
            raise PalbertError(f"A process ended with code {self.failure} before it could answer.")
        if not self._has_served:
            raise KeyboardInterrupt

    def init_processes(self) -> None:
        """Start all processes."""
        for place in range(self.processes_num):
            self.processes.append(self._begin(place))

    def keep_subprocess_alive(self) -> None:
        """Replace processes that have ended or hang."""
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if self._is_alive(place, process):
                self._note_ready(place, process)
            elif time.monotonic() > self._begun[place] + self._pause[place] or not self._has_served:
                self._replace(place, process)

    def handle_hup(self) -> None:
        """Let each process look for new checkpoints, where uvicorn would start new processes."""
        for process in self.processes:
            if process.pid in self._ready:
                _look_again(process)
            elif process.pid is not None:  # the signal would end it
                self._wanted.add(process.pid)

    def handle_ttin(self) -> None:
        """Keep the number of processes: metrics and limits are shared by as many as there were."""

    handle_ttou = handle_ttin

    def terminate_all(self) -> None:
        """Let all processes answer what they have begun; new connections are refused."""
        for each in self.sockets:
            each.close()
        super().terminate_all()

    def _is_alive(self, place: int, process: Process) -> bool:
        """Return whether a process runs and has said so lately; it is not waited for long, as others may have ended."""
        if not process.process.is_alive():
            return False
        if process.ping(timeout=1):
            self._heard[place] = time.monotonic()
        return time.monotonic() < self._heard[place] + self.config.timeout_worker_healthcheck

    def _begin(self, place: int) -> Process:
        self._begun[place] = self._heard[place] = time.monotonic()
        os.environ[PLACE] = AGAIN if self._has_served else str(place)
        process = Process(self.config, self.sockets)
        process.start()
        return process

    def _replace(self, place: int, process: Process) -> None:
        process.kill()
        process.join()
        assert process.pid is not None
        self._ready.discard(process.pid)
        mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
        if not self._has_served:
            self.failure = process.exitcode
            self.should_exit.set()
            return
        log.error("Process %s ended with code %s; another one takes its place.", process.pid, process.exitcode)
        self.processes[place] = self._begin(place)
        self._pause[place] = min(2 * self._pause[place], LONGEST_PAUSE)

    def _note_ready(self, place: int, process: Process) -> None:
        if process.pid is None or process.pid in self._ready or not process.is_ready(timeout=1):
            return
        self._ready.add(process.pid)
        self._pause[place] = 1.0
        if process.pid in self._wanted:
            self._wanted.discard(process.pid)
            _look_again(process)
        if self._has_served:
            log.info("Process %d answers.", process.pid)
        elif len(self._ready) == self.processes_num:
            self._has_served = True
            self.say_ready()


def worker_app() -> Any:
    """Return the application of one of several processes, which ends with the one that has started it."""
    pause_collector()  # before anything large is imported
    threading.Thread(target=_end_with_parent, name="palbert-parent", daemon=True).start()
    log_to_terminal()
    try:
        with terminate_as_interrupt():  # nothing has begun that would have to be answered
            from palbert.serving.app import build_app
            from palbert.serving.server import build_service

            return build_app(build_service(_settings()))
    except KeyboardInterrupt:
        sys.exit()
    except PalbertError as error:
        if os.environ[PLACE] == AGAIN or _is_first():
            print_error(error.message, error.hint)
        sys.exit(STARTUP_FAILURE)


def _reason() -> Path:
    """Return the file that the first of the processes makes that cannot start."""
    from palbert.serving.metrics import FOLDER  # imports torch, which a worker does after it has paused the collector

    return Path(os.environ[FOLDER]) / "reason-was-said"


def _is_first() -> bool:
    """Whether no other process has said why it cannot start: they mostly fail together, for the same reason."""
    try:
        _reason().touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _look_again(process: Process) -> None:
    """Let a process look for new checkpoints."""
    assert process.pid is not None
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(process.pid, signal.SIGHUP)


def _settings() -> Settings:
    """Read the settings of this process."""
    given = json.loads(os.environ[SETTINGS])
    paths = {field.name for field in fields(Settings) if "Path" in str(field.type) and field.name != "runs"}
    values: dict[str, Any] = {
        name: Path(value) if name in paths and value is not None else value for name, value in given.items()
    }
    values["runs"] = tuple((name, Path(folder)) for name, folder in given["runs"])
    return Settings(**values)


def _end_with_parent() -> None:
    """Stop when the process that looks after this one is gone, however it ended: its port would stay in use."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
