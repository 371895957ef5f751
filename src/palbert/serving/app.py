"""App: the routes of the service, and what starts and ends with it."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from palbert.errors import PalbertError
from palbert.serving import about_routes
from palbert.serving.embed_routes import embed, embeddings
from palbert.serving.explain_routes import explain
from palbert.serving.gateway import Gateway
from palbert.serving.model import ServedModel
from palbert.serving.page_routes import page_routes
from palbert.serving.predict_routes import predict
from palbert.serving.problems import Problem, respond
from palbert.serving.reload import Reloader
from palbert.serving.service import Service

MEASURE_EVERY = 1.0
"""Seconds between two updates of the metrics that other processes read."""

log = logging.getLogger(__name__)


def build_app(service: Service) -> Gateway:
    """Return the service as an ASGI application."""
    app = Starlette(
        routes=_routes(service),
        exception_handlers=dict.fromkeys((Problem, PalbertError, HTTPException, Exception), respond),
        lifespan=_lifespan,
    )
    app.state.service = service
    return Gateway(app, service)


def _routes(service: Service) -> list[BaseRoute]:
    return [
        Route("/v1/predict", predict, methods=["POST"]),
        Route("/v1/embed", embed, methods=["POST"]),
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/explain", explain, methods=["POST"]),
        Route("/v1/tasks", about_routes.tasks),
        Route("/healthz", about_routes.healthz),
        Route("/readyz", about_routes.readyz),
        Route("/metrics", about_routes.metrics),
        Route("/openapi.json", about_routes.schema),
        Route("/docs", about_routes.docs),
        *page_routes({model.name: model.folder / "report.html" for model in service.runs.all()}),
    ]


def _prepare(model: ServedModel) -> None:
    """Open what explanations need while the checkpoint is still there."""
    try:
        model.predictor.explainer.prepare()
    except Exception as error:
        log.error("%s: answers cannot be explained: %s", model.name, error)


async def _measure(service: Service) -> None:
    """Let the metrics of this process be up to date when another one is asked for those of all."""
    while True:
        service.measure()
        await asyncio.sleep(MEASURE_EVERY)


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Start the engine and what watches for new checkpoints; at the end, close what writes."""
    service: Service = app.state.service
    service.engine.start()
    for model in service.runs.all():  # in the thread that explains: nobody else waits for it
        service.explainers.submit(_prepare, model)
    reloader = Reloader(service)
    tasks = [asyncio.ensure_future(reloader.watch())] if service.settings.watch else []
    if service.settings.workers > 1:
        tasks.append(asyncio.ensure_future(_measure(service)))
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.begin)
    if service.reload_wanted.is_set():
        reloader.begin()
    try:
        yield
    finally:
        service.is_draining = True
        await asyncio.sleep(0)  # what uvicorn has cancelled is counted now
        if service.unanswered:
            who = "1 request was" if service.unanswered == 1 else f"{service.unanswered} requests were"
            log.warning("%s not answered within %g s.", who, service.settings.drain)
        for task in tasks:
            task.cancel()
        service.engine.close()
        service.explainers.shutdown(cancel_futures=True)
        for audit_log in service.audit.values():
            audit_log.close()
