"""What a service says about itself: its tasks, health, metrics and API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from palbert.serving.bodies import reply
from palbert.serving.openapi import docs_page, openapi
from palbert.serving.problems import Problem
from palbert.serving.service import STOPPING, Service


async def tasks(request: Request) -> Response:
    """List the runs and what each of their tasks takes and answers."""
    service: Service = request.app.state.service
    return reply({"runs": service.runs.about()})


async def healthz(request: Request) -> Response:
    """Say that the process answers, and can compute."""
    service: Service = request.app.state.service
    if service.engine.has_died:
        raise Problem(500, "The thread that computes has ended; the server's log says why.")
    return reply({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Say whether texts are answered: not while the service drains."""
    service: Service = request.app.state.service
    if service.is_draining:
        raise Problem(503, STOPPING, retry_after=5)
    return reply({"status": "ready", "runs": [model.about for model in service.runs.all()]})


async def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    service: Service = request.app.state.service
    service.measure()
    return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def schema(request: Request) -> Response:
    """Return the OpenAPI description."""
    service: Service = request.app.state.service
    return reply(openapi(service.settings))


async def docs(request: Request) -> Response:
    """Show the OpenAPI description as a page."""
    service: Service = request.app.state.service
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'self'", "X-Content-Type-Options": "nosniff"}
    return Response(docs_page(service.settings), media_type="text/html", headers=headers)
