"""Connections: how many there may be, how long a client may be silent, and how much it may send around a body."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from palbert.serving.problems import Problem

MOST, FEWEST = 4096, 64
"""Connections per process, if it may open as many files, and connections that are tried in any case."""
OTHER_FILES = 128
"""Files that a process needs for everything else."""
LARGEST_HEAD = 65_536
"""Bytes of a head, and of all else that is not a body; that of a read is added, up to a quarter of a mebibyte."""


class Config(uvicorn.Config):
    """uvicorn's settings with those of connections.

    Args:
        app: The application, or where it is.
        patience: Seconds for which a connection may be silent before a request and within its head, and for which a
            client may leave an answer unread.
        settings: uvicorn's.
    """

    def __init__(self, app: Any, *, patience: float, **settings: Any) -> None:
        super().__init__(app, http=Connection, **settings)
        self.patience = patience
        self.idle: dict[Connection, None] = {}
        """Connections that wait for a request, those that have waited longest first."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection to a client; it is closed when the client lets the server wait.

    uvicorn waits for ever for the first request, for the rest of a head, and for a client that reads nothing. If there
    are too many connections, the one that has waited for a request for longest makes room for the new one. The parser
    keeps any number of header fields, so their bytes are counted here.
    """

    most = MOST

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        assert isinstance(self.config, Config)
        self._idle, self._patience = self.config.idle, self.config.patience
        self._head, self._unread = _Timer(), _Timer()
        self._overhead = 0
        """Bytes since the last piece of a body: of a head, or of what frames and follows a body in chunks."""
        self._earlier: deque[RequestResponseCycle] = deque()
        """Requests before the last one that may not be answered yet, in order."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        is_full = len(self.connections) >= self.most
        super().connection_made(transport)
        self._in_time(self._head)
        if is_full and not self._idle:
            self._refuse(Problem(503, "Too many connections.", retry_after=5))
            return
        if is_full:
            longest = next(iter(self._idle))
            del self._idle[longest]
            self.connections.discard(longest)
            longest.transport.close()
        self._idle[self] = None

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > LARGEST_HEAD + len(data):
            self._refuse(Problem(431, f"Expected a head of at most {LARGEST_HEAD:,} bytes."))
        elif self.is_idle and not self._head.is_on:
            self._in_time(self._head)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body; what reads it counts its bytes."""
        self._overhead = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the form of all errors."""
        self._refuse(Problem(400, msg))

    def on_headers_complete(self) -> None:
        """Stop waiting for the head; what reads the body has a limit of its own."""
        self._head.stop()
        self._overhead = 0
        self._idle.pop(self, None)
        if not self.is_idle:  # the client did not wait for the answer to the request before this one
            self._earlier.append(self.cycle)
            while self._earlier[0].response_complete:  # they are answered in order
                self._earlier.popleft()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for it."""
        super().on_response_complete()
        if self.is_idle and not self.transport.is_closing():
            self._idle[self] = None

    def pause_writing(self) -> None:
        """Wait for a client to read an answer."""
        super().pause_writing()
        self._in_time(self._unread)

    def resume_writing(self) -> None:
        """Stop waiting for a client to read an answer."""
        self._unread.stop()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let all requests know that nobody waits for their answers; uvicorn tells the last one."""
        self._head.stop()
        self._unread.stop()
        self._idle.pop(self, None)
        for each in self._earlier:
            each.disconnected = not each.response_complete
            each.message_event.set()
        super().connection_lost(exc)

    def _refuse(self, problem: Problem) -> None:
        """Say what is wrong and close the connection; answers to earlier requests are lost."""
        if self.transport.is_closing():
            return
        request_id = os.urandom(8).hex()
        response = problem.response(request_id)
        fields = [*response.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % field for field in fields)
        line = f"HTTP/1.1 {problem.status} {problem.title}\r\n".encode()
        self.transport.write(line + head + b"\r\n" + bytes(response.body))
        self.transport.close()

    def _in_time(self, timer: _Timer) -> None:
        """End the connection unless the timer is stopped."""
        timer.start(self.loop, self._patience, self.transport.abort)


class _Timer:
    """Does something later, unless it is stopped."""

    _handle: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._handle is not None

    def start(self, loop: asyncio.AbstractEventLoop, seconds: float, work: Callable[[], None]) -> None:
        self.stop()
        self._handle = loop.call_later(seconds, work)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


def allow_connections() -> None:
    """Open as many files as the system allows, and have no more connections than that."""
    with suppress(ImportError):  # on Windows, there is no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST + OTHER_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            Connection.most = max(FEWEST, min(MOST, soft - OTHER_FILES))
