"""Asking an ASGI application in an event loop of the test, with control over when the client hangs up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

App = Callable[[Any, Any, Any], Awaitable[None]]
PATIENCE = 30.0
"""Seconds that a test waits for what must happen; other tests share the machine."""


@dataclass(frozen=True)
class Answer:
    """What the application sent."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: App,
    path: str,
    content: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    address: tuple[str, int] = ("127.0.0.1", 1),
    gone: asyncio.Event | None = None,
    body: list[bytes] | None = None,
) -> Answer:
    """Send a request and wait for the answer.

    Args:
        app: The application.
        path: What is asked.
        content: What is sent as JSON, by POST; GET without it.
        headers: Further headers.
        address: The client's.
        gone: When it is set, the client hangs up.
        body: Parts of a body to send in place of the content; after the last one, nothing comes any more.
    """
    is_post = content is not None or body is not None
    given = {"host": "127.0.0.1", **({"content-type": "application/json"} if is_post else {}), **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST" if is_post else "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": address,
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    hung_up = gone or asyncio.Event()
    parts = [json.dumps(content).encode()] if body is None else list(body)
    sent: list[Any] = []

    async def receive() -> Any:
        if parts:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts) or body is not None}
        await hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await asyncio.wait_for(app(scope, receive, send), PATIENCE)
    found = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent))


async def until(holds: Callable[[], bool]) -> None:
    """Let other tasks run until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "what the test waits for did not happen"
        await asyncio.sleep(0.002)
