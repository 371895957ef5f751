"""Servers as users start them: `palbert serve` as a child process, what it logs, and clients that ask it."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

PATIENCE = 120.0
"""Seconds within which what a test waits for must have happened; other tests share the machine."""
ADDRESS = re.compile(r"Serving .*?(http://\S+)")
SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)


class Server:
    """A running `palbert serve`; leaving the context ends it and everything that it has started.

    Args:
        arguments: What follows `palbert serve`.
        port: Any free one unless given.
        environment: Changes of the environment.
        most_files: Files and connections that the process may have open.
    """

    def __init__(
        self,
        *arguments: object,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        most_files: int | None = None,
    ) -> None:
        command = [sys.executable, "-m", "palbert", "serve", *map(str, arguments), "--port", str(port)]
        if most_files is not None:
            command = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(most_files), *command]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **(environment or {})},
            start_new_session=True,  # a group of its own, so that all of it can be ended
        )
        self.lines: list[str] = []
        self._logged = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._logged:
                self.lines.append(line.rstrip("\n"))
                self._logged.notify_all()

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        return "\n".join(self.lines)

    def wait_for_log(self, text: str, *, times: int = 1) -> str:
        """Wait until some lines with a text have been logged; return the last of them."""
        with self._logged:
            found = self._logged.wait_for(lambda: [line for line in self.lines if text in line][times - 1 :], PATIENCE)
        assert found, f"{text!r} was not logged:\n{self.log}"
        return found[0]

    @property
    def url(self) -> str:
        """Where the server listens, as its log says."""
        found = ADDRESS.search(self.wait_for_log("Serving "))
        assert found, self.log
        return found[1]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def wait_until_ready(self) -> None:
        """Wait until /readyz answers."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"the server ended:\n{self.log}"
            try:
                with self.client() as client:
                    return client.get("/readyz").status_code == 200
            except httpx.TransportError:
                return False

        wait_for(is_ready, "the server was not ready")

    def client(self, **settings: Any) -> httpx.Client:
        """Return a client with connections of its own; the proxies of the environment are not asked."""
        return httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False, **settings)

    def metrics(self, **settings: Any) -> dict[tuple[str, str], float]:
        """Return the values of /metrics by name and labels."""
        with self.client(**settings) as client:
            page = client.get("/metrics").raise_for_status().text
        return {(found["name"], found["labels"] or ""): float(found["value"]) for found in SAMPLE.finditer(page)}

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over all labels that are not given."""
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        found = self.metrics().items()
        return sum(value for (each, has), value in found if each == name and wanted <= set(has.split(",")))

    def memory(self) -> int:
        """Return the bytes of memory that the first process occupies."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the first process, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(*arguments: object, **settings: Any) -> Iterator[Server]:
    """Start a server and wait until it is ready."""
    with Server(*arguments, **settings) as server:
        server.wait_until_ready()
        yield server


def wait_for(condition: Callable[[], Any], otherwise: str) -> Any:
    """Ask again and again until something is so; return what was found."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)
    return found


class Crowd:
    """Threads that ask again and again until the context is left; what they found is in `answers`.

    Args:
        server: Whom they ask.
        ask: One request: gets a client and the number of the thread, and returns what is kept.
        size: How many threads.
    """

    def __init__(self, server: Server, ask: Callable[[httpx.Client, int], Any], *, size: int) -> None:
        self.server, self.ask = server, ask
        self.answers: list[Any] = []
        self.errors: list[Exception] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(size)]

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let everybody finish the request they are at."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def wait_for_answers(self, more: int) -> None:
        """Wait until there are so many more answers."""
        before = len(self.answers)
        wait_for(lambda: self.errors or len(self.answers) >= before + more, "too few answers came")

    def _run(self, number: int) -> None:
        with self.server.client() as client:
            while not self._stop.is_set():
                try:
                    self.answers.append(self.ask(client, number))
                except Exception as error:
                    self.errors.append(error)
                    return


@contextmanager
def open_request(server: Server) -> Iterator[socket.socket]:
    """Begin a request whose body never comes; the service says when it waits for it."""
    head = (
        b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 500\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head)
        yield connection


def open_where_read(path: Path) -> int | None:
    """Open a pipe for writing if somebody reads from it."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        assert error.errno == errno.ENXIO
        return None
