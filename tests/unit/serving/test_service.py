"""Service: who is admitted, who is told to wait, and clients that do not wait for their answers."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.testclient import TestClient
from tests.unit.serving.asking import ask, until
from tests.unit.serving.conftest import Connect, MakeService

from palbert.serving.app import build_app
from palbert.serving.audit_log import AuditLog
from palbert.serving.audit_reader import read_audit_log
from palbert.serving.keys import Keys, add_key
from palbert.serving.model import ServedModel

BODY = {"task": "sst", "texts": ["good"]}


def texts(number: int) -> dict[str, Any]:
    return {"task": "sst", "texts": ["good"] * number}


def test_a_client_may_send_so_many_texts_and_then_has_to_wait(connect: Connect) -> None:
    client = connect(rate=0.5, burst=5)
    assert client.post("/v1/predict", json=texts(3)).status_code == 200
    refused = client.post("/v1/predict", json=texts(3))
    assert refused.status_code == 429 and "0.5 texts per second" in refused.json()["detail"]
    assert 1 <= int(refused.headers["Retry-After"]) <= 2  # one text is lacking, which comes within 2 s
    assert client.post("/v1/predict", json=texts(2)).status_code == 200
    assert 'palbert_rejected_total{reason="rate"} 1.0' in client.get("/metrics").text


def test_every_route_that_computes_counts_against_the_rate(connect: Connect) -> None:
    client = connect(rate=0.001, burst=4)
    for path, body in (
        ("/v1/predict", BODY),
        ("/v1/explain", BODY | {"method": "gradient-input"}),
        ("/v1/embed", BODY),
        ("/v1/embeddings", {"input": "good"}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == (422 if path == "/v1/embeddings" else 200), answer.text  # adapters: no one vector
    assert client.post("/v1/predict", json=BODY).status_code == 200
    assert client.post("/v1/embed", json=BODY).status_code == 429
    assert client.get("/v1/tasks").status_code == 200


def test_more_texts_than_ever_fit_are_no_matter_of_waiting(connect: Connect) -> None:
    answer = connect(rate=1, burst=5).post("/v1/predict", json=texts(6))
    assert answer.status_code == 422 and "at most 5 texts per request, found 6" in answer.json()["detail"]


def test_what_is_wrong_costs_nothing(connect: Connect) -> None:
    client = connect(rate=0.001, burst=1)
    for body in (BODY | {"task": "stt"}, BODY | {"run": "x"}, BODY | {"texts": []}):
        assert client.post("/v1/predict", json=body).status_code in (404, 422)
    assert client.post("/v1/predict", json=BODY).status_code == 200


def test_each_address_has_its_own_rate(make_service: MakeService) -> None:
    async def scenario() -> list[int]:
        service = make_service(rate=0.001, burst=1)
        service.engine.start()
        app, found = build_app(service), []
        for host, port in (("127.0.0.1", 1), ("127.0.0.1", 2), ("10.0.0.7", 1)):
            found.append((await ask(app, "/v1/predict", BODY, address=(host, port))).status)
        service.engine.close()
        return found

    assert asyncio.run(scenario()) == [200, 429, 200]


def test_each_key_has_its_own_rate_wherever_it_comes_from(make_service: MakeService, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    secrets = [add_key(path, name) for name in ("one", "two")]

    async def scenario() -> list[int]:
        service = make_service(rate=0.001, burst=1, keys=path, known_keys=Keys(path))
        service.engine.start()
        app, found = build_app(service), []
        for secret, host in ((secrets[0], "10.0.0.1"), (secrets[0], "10.0.0.2"), (secrets[1], "10.0.0.1")):
            headers = {"Authorization": f"Bearer {secret}"}
            found.append((await ask(app, "/v1/predict", BODY, headers=headers, address=(host, 1))).status)
        service.engine.close()
        return found

    assert asyncio.run(scenario()) == [200, 429, 200]


def test_the_log_names_clients_by_key_or_address(make_service: MakeService, tmp_path: Path) -> None:
    path, log = tmp_path / "keys.json", AuditLog(tmp_path / "log.sqlite")
    secret = add_key(path, "website")

    async def scenario() -> None:
        for settings, headers in (
            ({"keys": path, "known_keys": Keys(path)}, {"X-API-Key": secret}),
            ({}, {}),
        ):
            service = make_service(audit_logs={"demo": log}, **settings)
            service.engine.start()
            found = await ask(build_app(service), "/v1/predict", BODY, headers=headers, address=("10.0.0.7", 1))
            assert found.status == 200
            service.engine.close()

    asyncio.run(scenario())
    assert log.flush(20)
    assert [row["client"] for row in read_audit_log(log.path)] == ["website", "10.0.0.7"]
    assert len(list(read_audit_log(log.path, client="website"))) == 1
    log.close()


def test_a_full_queue_refuses_with_a_time_to_wait(make_service: MakeService) -> None:
    async def scenario() -> None:
        service = make_service(queue=3)
        app = build_app(service)
        asking = [asyncio.ensure_future(ask(app, "/v1/predict", texts(number))) for number in (2, 5)]
        await until(lambda: service.engine.texts == 7)  # the engine has not begun
        for number in (1, 100):
            refused = await ask(app, "/v1/predict", texts(number))
            assert refused.status == 503 and refused.headers["content-type"] == "application/problem+json"
            assert int(refused.headers["retry-after"]) >= 1
        service.engine.start()
        for each in asking:
            assert (await each).status == 200
        assert (await ask(app, "/v1/predict", texts(100))).status == 200
        service.engine.close()
        assert (await ask(app, "/v1/predict", BODY)).status == 503  # and does not wait for ever

    asyncio.run(scenario())


def test_a_client_that_hangs_up_is_not_computed(make_service: MakeService, passes: list[int]) -> None:
    async def scenario() -> None:
        service, gone = make_service(), asyncio.Event()
        app = build_app(service)
        leaving = asyncio.ensure_future(ask(app, "/v1/predict", texts(200), gone=gone))
        staying = asyncio.ensure_future(ask(app, "/v1/predict", BODY))
        await until(lambda: service.engine.texts == 201)
        gone.set()
        assert (await leaving).status == 499
        service.engine.start()
        assert (await staying).status == 200
        service.engine.close()
        assert service.engine.texts == 0 and passes == [3]
        page = (await ask(app, "/metrics")).body.decode()
        assert 'palbert_requests_total{route="/v1/predict",status="499"} 1.0' in page

    asyncio.run(scenario())


def test_a_request_that_the_server_ends_is_not_computed(make_service: MakeService, passes: list[int]) -> None:
    async def scenario() -> None:
        service = make_service()
        asking = asyncio.ensure_future(ask(build_app(service), "/v1/predict", texts(200)))
        await until(lambda: service.engine.texts == 200)
        asking.cancel()  # as at the end of the time to drain
        await asyncio.wait([asking])
        service.engine.start()
        await until(lambda: service.engine.texts == 0)
        service.engine.close()

    asyncio.run(scenario())
    assert passes == []


def test_a_log_that_cannot_be_written_refuses_requests_if_that_is_asked(make_service: MakeService) -> None:
    class Log:
        dropped = 0

        def __init__(self, *, healthy: bool) -> None:
            self.healthy = healthy

        def put(self, rows: Any) -> None:
            pass

        def close(self) -> None:
            pass

    for policy, healthy, status in (("refuse", False, 503), ("refuse", True, 200), ("serve", False, 200)):
        service = make_service(audit_logs={"demo": Log(healthy=healthy)}, audit_full=policy)
        with TestClient(build_app(service), base_url="http://127.0.0.1") as client:
            answer = client.post("/v1/predict", json=BODY)
            assert answer.status_code == status
            if status == 503:
                assert "audit log" in answer.json()["detail"] and int(answer.headers["Retry-After"]) >= 1


def test_an_answer_that_fails_is_an_error_without_its_cause(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: ServedModel, pieces: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(ServedModel, "compute", broken)
    with caplog.at_level(logging.ERROR):
        answer = client.post("/v1/predict", json=BODY)
    assert answer.status_code == 500 and "secret" not in answer.text and "secret" in caplog.text
    assert answer.json()["request_id"] == answer.headers["X-Request-Id"]
    monkeypatch.undo()
    assert client.post("/v1/predict", json=BODY).status_code == 200
