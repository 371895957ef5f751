"""Problems: what went wrong with a request, as problem+json (RFC 9457)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from palbert.errors import PalbertError

MEDIA_TYPE = "application/problem+json"
HUNG_UP = 499
"""The status of a request whose client did not wait for the answer: nginx's, since HTTP has none."""
TITLES = {status.value: status.phrase for status in HTTPStatus} | {HUNG_UP: "Client Closed Request"}


class Problem(Exception):
    """Ends a request.

    Args:
        status: The HTTP status.
        detail: What is wrong, for a person.
        hint: What to do about it.
        retry_after: Seconds after which the request may be sent again.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        hint: str | None = None,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.retry_after = retry_after
        self.headers = dict(headers or {})

    @property
    def title(self) -> str:
        """Return what the status is called."""
        return TITLES.get(self.status, "Error")

    def as_dict(self) -> dict[str, Any]:
        """Return the members of the problem."""
        values = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        return values | ({"hint": self.hint} if self.hint else {})

    def response(self, request_id: str) -> Response:
        """Return the response."""
        headers = dict(self.headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        content = self.as_dict() | {"request_id": request_id}
        return Response(to_json(content), self.status, headers=headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """Return what a client is told about an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, PalbertError):
        return Problem(422 if error.exit_code == 2 else 500, error.message, hint=error.hint)
    if isinstance(error, HTTPException):
        return Problem(error.status_code, error.detail, headers=error.headers)
    return Problem(500, "An unexpected error; the server's log has more.")


async def respond(request: Request, error: Exception) -> Response:
    """Answer a request that ended with an error."""
    return problem_of(error).response(request.scope.get("palbert.request_id", ""))


def item_error(index: int, detail: str, *, hint: str | None = None, status: int = 422) -> dict[str, Any]:
    """Return what stands in the place of the answer of a text that could not be answered."""
    problem = Problem(status, detail, hint=hint)
    return {"error": {**problem.as_dict(), "index": index}}
