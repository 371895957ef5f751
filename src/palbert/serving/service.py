"""Service: everything that routes share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from palbert.serving.audit_log import AuditEntry, AuditLog
from palbert.serving.engine import ClosedError, Engine, QueueFullError
from palbert.serving.jobs import Call
from palbert.serving.keys import Keys
from palbert.serving.limits import RateLimits
from palbert.serving.metrics import Metrics
from palbert.serving.model import ServedModel
from palbert.serving.problems import HUNG_UP, Problem
from palbert.serving.runs import Runs
from palbert.serving.settings import Settings
from palbert.verbs.texts import Text

HANG_UP = 0.02
"""Seconds after which a waiting request looks whether its client is still there."""
STOPPING = "The service is stopping."
T = TypeVar("T")


def _nothing() -> None:
    pass


@dataclass
class Service:
    """A server's models, limits and logs."""

    settings: Settings
    runs: Runs
    engine: Engine
    metrics: Metrics
    keys: Keys | None = None
    limits: RateLimits | None = None
    audit: dict[str, AuditLog] = field(default_factory=dict)
    """The audit log of each run."""
    reload_wanted: threading.Event = field(default_factory=threading.Event)
    """Whether SIGHUP came while models were loaded."""
    is_draining: bool = False
    unanswered: int = 0
    """Requests that took longer than the service may take to stop."""
    explainers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="palbert-explain")
    )
    explaining: int = 0
    """Texts that wait for an explanation."""

    def measure(self) -> None:
        """Bring the metrics up to date that are counted elsewhere."""
        self.metrics.queue.set(self.engine.texts)
        self.metrics.count_dropped(sum(log.dropped for log in set(self.audit.values())))

    def admit(self, request: Request, texts: int) -> None:
        """Count a request's texts against the client's rate; raise Problem if it has to wait."""
        if self.settings.audit_full == "refuse" and not all(log.healthy for log in self.audit.values()):
            self.metrics.rejected.labels("audit").inc()
            raise Problem(503, "The audit log cannot be written, so nothing is answered.", retry_after=10)
        if self.limits is None:
            return
        seconds = self.limits.take(client_of(request), texts)
        if seconds > 0:
            self.metrics.rejected.labels("rate").inc()
            raise Problem(429, f"The limit is {self.settings.rate:g} texts per second.", retry_after=seconds)

    async def answer(self, request: Request, call: Call) -> None:
        """Let the engine compute a call; raise Problem if it is not taken, or its client is gone."""
        if not call.jobs:
            return
        try:
            self.engine.put(call)
        except QueueFullError as full:
            self.metrics.rejected.labels("queue").inc()
            raise Problem(503, "Too many texts are waiting.", retry_after=full.seconds) from None
        except ClosedError:
            raise Problem(503, STOPPING, retry_after=5) from None
        await self.unless_gone(request, call.done, lambda: self.engine.cancel(call))

    async def unless_gone(self, request: Request, done: asyncio.Future[T], cancel: Callable[[], None] = _nothing) -> T:
        """Wait for a result; if the client hangs up before, cancel it and raise Problem."""
        gone = False

        async def watch() -> None:
            nonlocal gone
            message = await request.receive()  # the body has been read: nothing else comes
            if message["type"] == "http.disconnect" and not done.done():
                gone = True
                done.cancel()

        watching: list[asyncio.Task[None]] = []
        begin = asyncio.get_running_loop().call_later(HANG_UP, lambda: watching.append(asyncio.ensure_future(watch())))
        try:
            return await done
        except asyncio.CancelledError:
            cancel()
            if gone:
                raise Problem(HUNG_UP, "The client hung up.") from None
            raise
        finally:
            begin.cancel()
            for task in watching:
                task.cancel()

    def call(self, request: Request, model: ServedModel) -> Call:
        """Return a call for a request, without rows yet."""
        loop = asyncio.get_running_loop()
        return Call(model, _source_of(request), time.monotonic(), loop.create_future(), loop)

    def log(self, request: Request, model: ServedModel, rows: Iterable[tuple[str, Text, dict[str, Any]]]) -> None:
        """Write inputs and answers, each with its task, into the audit log of a run."""
        log = self.audit.get(model.name)
        if log is None:
            return
        now, scope = time.time(), request.scope
        seconds, client = time.monotonic() - scope["palbert.start"], scope.get("palbert.key") or _address_of(request)
        log.put(
            [
                AuditEntry(now, scope["palbert.request_id"], client, model.name, model.fingerprint, task,
                           text if isinstance(text, str) else list(text), answer, seconds)
                for task, text, answer in rows
            ]
        )  # fmt: skip


def client_of(request: Request) -> str:
    """Return whose rate is limited: the name of the API key, or the address."""
    key = request.scope.get("palbert.key")
    return f"key {key}" if key else f"address {_address_of(request)}"


def _address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _source_of(request: Request) -> str:
    """Return who shares a turn in batches: all connections of an API key, or one connection without keys."""
    key = request.scope.get("palbert.key")
    return key or str(request.scope.get("client"))
