"""Gateway: what happens to every request: its id, who sends it, its time, and its errors."""

from __future__ import annotations

import asyncio
import random
import re
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from palbert.serving.problems import Problem
from palbert.serving.service import Service
from palbert.serving.settings import LOOPBACK

GUARDED = ("/v1/", "/metrics", "/report/")
"""Beginnings of paths that need a key where there are keys."""
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
ROUTES = ("/v1/predict", "/v1/embed", "/v1/embeddings", "/v1/explain", "/v1/tasks", "/metrics", "/healthz", "/readyz")
"""The routes that are counted by name; all others are counted together, since anybody can ask for any path."""


class Gateway:
    """Wraps the application.

    Args:
        app: The application.
        service: Its service.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service
        self.hosts = {*LOOPBACK, "[::1]", service.settings.host} if service.settings.is_open else None
        """The names under which a service without keys may be asked."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if REQUEST_ID.fullmatch(given) else f"{random.getrandbits(64):016x}"
        scope["palbert.request_id"], scope["palbert.start"] = request_id, time.monotonic()
        status, has_begun = 500, False

        async def send_noted(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            self._check_host(headers)
            self._identify(scope, headers)
            await self.app(scope, receive, send_noted)
        except Problem as problem:
            await problem.response(request_id)(scope, receive, send_noted)
        except asyncio.CancelledError:  # the service stops, and this takes longer than it may then
            self.service.unanswered += 1
            if has_begun:
                raise
            stopped = Problem(503, "The service stopped before this was answered.", retry_after=5)
            await stopped.response(request_id)(scope, receive, send_noted)
        finally:
            self._count(scope, status)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse requests under other names: a page that a browser shows must not reach a service without keys."""
        if self.hosts is None:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() not in self.hosts:
            raise Problem(
                403, "Without API keys, the service answers only under the name of this machine.",
                hint="Ask it under http://127.0.0.1, or start it with --keys.",
            )  # fmt: skip

    def _identify(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Note whose key a request has; raise Problem if a key is needed and none is known."""
        keys = self.service.keys
        if keys is None or not scope["path"].startswith(GUARDED):
            return
        secret = headers.get(b"x-api-key", b"").decode("latin-1")
        if not secret:
            scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
            secret = secret.strip() if scheme.lower() == "bearer" else ""
        scope["palbert.key"] = keys.identify(secret) if secret else None
        if scope["palbert.key"] is None:
            what = "The API key is unknown or has expired." if secret else "An API key is needed."
            raise Problem(
                401, what, hint="Send it as: Authorization: Bearer pal_…", headers={"WWW-Authenticate": "Bearer"}
            )

    def _count(self, scope: Scope, status: int) -> None:
        route = scope["path"] if scope["path"] in ROUTES else "other"
        metrics = self.service.metrics
        metrics.requests.labels(route, str(status)).inc()
        metrics.seconds.labels(route).observe(time.monotonic() - scope["palbert.start"])
