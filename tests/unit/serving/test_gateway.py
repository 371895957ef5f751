"""Gateway: ids of requests, API keys, the names under which a service without keys is asked, and counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.testclient import TestClient
from tests.unit.serving.asking import ask
from tests.unit.serving.conftest import Connect, MakeService

from palbert.serving.app import build_app
from palbert.serving.gateway import Gateway
from palbert.serving.keys import Keys, add_key, remove_key

BODY = {"task": "sst", "texts": ["good"]}
OPEN = ("/", "/page.css", "/healthz", "/readyz", "/openapi.json", "/docs")
CLOSED = ("/v1/tasks", "/metrics", "/report/demo", "/v1/unknown")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@pytest.fixture
def secret(keys: Path) -> str:
    return add_key(keys, "website")


@pytest.fixture
def guarded(connect: Connect, make_service: MakeService, keys: Path, secret: str) -> TestClient:
    """Return a client of a service that wants keys."""
    return connect(make_service(keys=keys, known_keys=Keys(keys)))


@pytest.mark.parametrize("given", ["my-request_1.2", "a" * 64, "0"])
def test_the_id_of_a_request_is_given_back(client: TestClient, given: str) -> None:
    for path, status in (("/healthz", 200), ("/v1/nothing", 404)):
        answer = client.get(path, headers={"X-Request-Id": given})
        assert (answer.status_code, answer.headers["X-Request-Id"]) == (status, given)
    assert answer.json()["request_id"] == given


@pytest.mark.parametrize("given", [None, "", "a" * 65, "two words", "a\tb", 'x"', "é"])
def test_a_request_without_a_proper_id_gets_one(client: TestClient, given: str | None) -> None:
    headers = {} if given is None else {"X-Request-Id": given.encode("latin-1")}
    found = [client.get("/healthz", headers=headers).headers["X-Request-Id"] for _ in range(2)]  # type: ignore[arg-type]
    assert found[0] != found[1] and all(len(each) == 16 and int(each, 16) >= 0 for each in found)


def test_a_known_key_lets_in_by_either_header(guarded: TestClient, secret: str) -> None:
    for headers in (
        {"Authorization": f"Bearer {secret}"},
        {"Authorization": f"bearer  {secret} "},
        {"X-API-Key": secret},
    ):
        assert guarded.post("/v1/predict", json=BODY, headers=headers).status_code == 200, headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic d2Vic2l0ZQ=="},
        {"Authorization": "Bearer pal_wrong"},
        {"X-API-Key": "pal_wrong"},
        {"X-API-Key": "é" * 500},
        {"Authorization": "pal_wrong"},
    ],
)
def test_no_key_or_a_wrong_one_is_401(guarded: TestClient, headers: dict[str, str]) -> None:
    given = {name: value.encode("latin-1") for name, value in headers.items()}
    for path in CLOSED:
        answer = guarded.get(path, headers=given)  # type: ignore[arg-type]
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.headers["Content-Type"] == "application/problem+json" and "pal_…" in answer.json()["hint"]
    answer = guarded.post("/v1/predict", json=BODY, headers=given)  # type: ignore[arg-type]
    assert answer.status_code == 401 and answer.json()["request_id"] == answer.headers["X-Request-Id"]


def test_a_wrong_key_is_told_from_a_missing_one(guarded: TestClient) -> None:
    assert "is needed" in guarded.get("/v1/tasks").json()["detail"]
    assert "unknown or has expired" in guarded.get("/v1/tasks", headers={"X-API-Key": "x"}).json()["detail"]


def test_pages_and_health_need_no_key(guarded: TestClient) -> None:
    assert {path: guarded.get(path).status_code for path in OPEN} == dict.fromkeys(OPEN, 200)


@pytest.mark.parametrize(
    "path", ["/v1/tasks/", "//v1/tasks", "/V1/tasks", "/v1//tasks", "/%76%31/tasks", "/./v1/tasks"]
)
def test_no_other_spelling_of_a_path_needs_no_key(guarded: TestClient, path: str) -> None:
    assert guarded.get(path, follow_redirects=False).status_code in (401, 404)


def test_a_removed_key_lets_in_no_more(
    guarded: TestClient, keys: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.serving.keys.CHECK_EVERY", 0.0)
    assert guarded.get("/v1/tasks", headers={"X-API-Key": secret}).status_code == 200
    remove_key(keys, "website")
    assert guarded.get("/v1/tasks", headers={"X-API-Key": secret}).status_code == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8000"])
def test_without_keys_the_service_answers_under_the_names_of_this_machine(client: TestClient, host: str) -> None:
    assert client.get("/v1/tasks", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["example.com", "example.com:8000", "127.0.0.1.example.com", "localhost.evil", ""])
def test_without_keys_no_foreign_name_reaches_it(client: TestClient, host: str) -> None:
    for path in ("/v1/tasks", "/", "/healthz"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403 and "--keys" in answer.json()["hint"]


def test_with_keys_it_answers_under_any_name(guarded: TestClient, secret: str) -> None:
    headers = {"Host": "service.example.com", "X-API-Key": secret}
    assert guarded.get("/v1/tasks", headers=headers).status_code == 200


def test_requests_are_counted_by_route_and_status(client: TestClient) -> None:
    client.post("/v1/predict", json=BODY)
    client.post("/v1/predict", json={})
    client.get("/any/path/that/nobody/made")
    client.get("/another")
    page = client.get("/metrics").text
    for line in (
        'palbert_requests_total{route="/v1/predict",status="200"} 1.0',
        'palbert_requests_total{route="/v1/predict",status="422"} 1.0',
        'palbert_requests_total{route="other",status="404"} 2.0',
        'palbert_request_seconds_count{route="/v1/predict"} 2.0',
    ):
        assert line in page
    assert "nobody" not in page


def test_an_application_that_fails_is_counted_as_an_error(make_service: MakeService) -> None:
    service = make_service()

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(ask(Gateway(broken, service), "/healthz"))
    assert 'palbert_requests_total{route="/healthz",status="500"} 1.0' in service.metrics.page().decode()


def test_what_is_no_request_passes_through(make_service: MakeService) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        return {}

    asyncio.run(Gateway(app, make_service())({"type": "lifespan"}, nothing, nothing))
    assert seen == ["lifespan"]


def test_an_answer_without_headers_gets_the_id(make_service: MakeService) -> None:
    async def bare(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    assert "x-request-id" in asyncio.run(ask(Gateway(bare, make_service()), "/healthz")).headers


def test_the_whole_application_is_behind_it(make_service: MakeService) -> None:
    assert isinstance(build_app(make_service()), Gateway)
