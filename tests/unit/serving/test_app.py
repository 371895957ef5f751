"""App: which routes there are, and what starts and ends with a service."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.routing import Route
from starlette.testclient import TestClient
from tests.unit.serving.asking import ask, until
from tests.unit.serving.conftest import MakeService

from palbert.errors import DataError
from palbert.serving.app import _lifespan, build_app
from palbert.serving.audit_log import AuditLog
from palbert.serving.reload import Reloader
from palbert.serving.service import Service

BODY = {"task": "sst", "texts": ["good"]}


def routes(service: Service) -> set[str]:
    app: Any = build_app(service).app
    return {route.path for route in app.routes if isinstance(route, Route)}


def test_every_route_of_the_interface_is_there(make_service: MakeService) -> None:
    assert routes(make_service()) >= {
        *("/v1/predict", "/v1/embed", "/v1/embeddings", "/v1/explain", "/v1/tasks"),
        *("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/", "/page.css", "/report/{run}"),
    }


def test_a_service_starts_and_ends_with_its_lifespan(make_service: MakeService, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.sqlite")
    service = make_service(audit_logs={"demo": log, "same": log})
    with TestClient(build_app(service), base_url="http://127.0.0.1") as client:
        assert client.post("/v1/predict", json=BODY).status_code == 200
        assert not service.is_draining
    assert service.is_draining and not service.engine._thread.is_alive()
    with pytest.raises(RuntimeError, match="closed"):
        log.put([])
    with pytest.raises(RuntimeError, match="shutdown"):
        service.explainers.submit(int)


def test_what_has_begun_is_answered_at_the_end(make_service: MakeService) -> None:
    async def scenario() -> None:
        service = make_service(wait=1000.0)
        app: Any = build_app(service)
        service.engine._expected = [9, 9]  # so that it waits for more
        async with _lifespan(app.app):
            asking = [asyncio.ensure_future(ask(app, "/v1/predict", BODY)) for _ in range(3)]
            await until(lambda: service.engine.texts == 3)
        assert [(await each).status for each in asking] == [200] * 3

    asyncio.run(scenario())


def test_a_service_that_watches_stops_watching_at_the_end(make_service: MakeService) -> None:
    async def scenario() -> None:
        service = make_service(watch=0.01)
        app: Any = build_app(service)
        async with _lifespan(app.app):
            await until(lambda: b'palbert_reloads_total{result="unchanged"} 2.0' in service.metrics.page())
        await asyncio.sleep(0.02)
        assert len(asyncio.all_tasks()) == 1  # this one

    asyncio.run(scenario())


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs signals of POSIX")
def test_sighup_looks_for_new_checkpoints(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread")
    begun: list[bool] = []
    monkeypatch.setattr(Reloader, "begin", lambda self: begun.append(True))

    async def scenario() -> None:
        app: Any = build_app(make_service())
        async with _lifespan(app.app):
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: bool(begun))

    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        asyncio.run(scenario())
    finally:
        signal.signal(signal.SIGHUP, former)
    assert begun == [True]


def test_sighup_while_models_were_loaded_is_done_afterwards(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(Reloader, "begin", lambda self: begun.append(True))

    async def scenario() -> None:
        service = make_service()
        service.reload_wanted.set()
        app: Any = build_app(service)
        async with _lifespan(app.app):
            assert begun == [True]

    asyncio.run(scenario())


@pytest.mark.parametrize(("error", "status"), [(DataError("Bad."), 422), (RuntimeError("secret"), 500)])
def test_every_error_of_a_route_is_a_problem(
    error: Exception, status: int, make_service: MakeService, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    service = make_service()

    def broken() -> Any:
        raise error

    monkeypatch.setattr(service.runs, "about", broken)
    client = TestClient(build_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False)
    answer = client.get("/v1/tasks")
    assert answer.status_code == status and answer.headers["Content-Type"] == "application/problem+json"
    assert "secret" not in answer.text and answer.json()["request_id"] == answer.headers["X-Request-Id"]


def test_unknown_paths_and_methods_are_problems(make_service: MakeService) -> None:
    client = TestClient(build_app(make_service()), base_url="http://127.0.0.1")
    for method, path, status in (("GET", "/v1/nothing", 404), ("GET", "/v1/predict", 405), ("DELETE", "/", 405)):
        answer = client.request(method, path)
        assert answer.status_code == status and answer.json()["title"]
