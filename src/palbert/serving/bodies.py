"""Bodies: reading requests within limits, and writing answers."""

from __future__ import annotations

import sys
from typing import Any

from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from palbert.serving.problems import HUNG_UP, Problem, item_error
from palbert.serving.settings import Settings
from palbert.verbs.texts import Text

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    from anyio import fail_after

    @asynccontextmanager
    async def timeout(seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError if the block takes longer."""
        with fail_after(seconds):
            yield


LONGEST_NUMBER = 19
"""Digits of a Content-Length that are read; a longer number is too large anyway."""

DISCARDED = 32_000_000
"""Bytes that are read past the longest body: most clients read the answer only when they have sent everything."""


async def read_body(request: Request, settings: Settings) -> bytes:
    """Return the body of a request; raise Problem if it is too long, too slow, or not said to be JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # Pages of other sites cannot send this type without asking first, which is not answered.
        raise Problem(415, "Expected a body of JSON.", hint="Send the header Content-Type: application/json.")
    too_long = Problem(413, f"Expected at most {settings.max_body:,} bytes.", hint="Send fewer texts per request.")
    length = request.headers.get("content-length", "")
    can_wait = request.headers.get("expect", "").lower() == "100-continue"
    most = settings.max_body + (0 if can_wait else DISCARDED)
    if length.isdecimal() and int(length[:LONGEST_NUMBER]) > most:
        raise too_long
    try:
        async with timeout(settings.read_timeout):
            return await _joined(request, settings.max_body, too_long)
    except TimeoutError:
        late = f"The body did not arrive within {settings.read_timeout:g} s."
        raise Problem(408, late, headers={"Connection": "close"}) from None  # what still comes is no request
    except ClientDisconnect:
        raise Problem(HUNG_UP, "The client hung up before the body was complete.") from None


async def _joined(request: Request, most: int, too_long: Problem) -> bytes:
    """Read a body of at most so many bytes, and throw a longer one away."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most + DISCARDED:
            break
        if size <= most:
            parts.append(part)
    if size > most:
        raise too_long
    return b"".join(parts)


def reply(content: Any) -> Response:
    """Return an answer as JSON, which has no NaN: it becomes null."""
    return Response(to_json(content, inf_nan_mode="null"), media_type="application/json")


def check_count(items: list[Any], most: int, *, name: str = "texts") -> None:
    """Raise Problem if a request has no or too many texts; `name` is what the body calls them."""
    if not items:
        raise Problem(422, f"{name}: expected at least one text.")
    if len(items) > most:
        raise Problem(422, f"{name}: expected at most {most}, found {len(items)}.", hint="Send several requests.")


def read_item(index: int, item: Any, settings: Settings) -> Text | dict[str, Any]:
    """Return a text or pair, or what is answered in its place."""
    texts = [item] if isinstance(item, str) else item
    if not isinstance(texts, list) or len(texts) > 2 or not texts or not all(isinstance(each, str) for each in texts):
        return item_error(index, "Expected a text, or a pair as a list of two texts.")
    if not isinstance(item, str) and len(texts) == 1:
        return item_error(index, "Expected two texts in a list, found one.", hint="Send a single text as a string.")
    longest = max(map(len, texts))
    if longest > settings.max_characters:
        return item_error(index, f"Expected at most {settings.max_characters:,} characters, found {longest:,}.")
    return texts[0] if isinstance(item, str) else (texts[0], texts[1])
