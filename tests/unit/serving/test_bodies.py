"""Bodies: what is read, up to which size and time, and what stands in the place of bad items."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.testclient import TestClient
from tests.unit.serving.asking import ask, until
from tests.unit.serving.conftest import Connect, MakeService

from palbert.serving.app import build_app
from palbert.serving.bodies import check_count, read_item, reply
from palbert.serving.problems import Problem
from palbert.serving.settings import Settings

SETTINGS = Settings(runs=(("demo", Path("demo")),), max_characters=10)
BODY = {"task": "sst", "texts": ["good"]}


def send(client: TestClient, content: bytes, kind: str | None = "application/json") -> Any:
    return client.post("/v1/predict", content=content, headers={"Content-Type": kind} if kind else {})


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=x"]
)
def test_json_is_read(client: TestClient, kind: str) -> None:
    assert send(client, json.dumps(BODY).encode(), kind).status_code == 200


@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/jsonp", "multipart/form-data", "x;application/json"]
)
def test_what_a_foreign_page_can_send_unasked_is_refused(client: TestClient, kind: str | None) -> None:
    answer = send(client, json.dumps(BODY).encode(), kind)
    assert answer.status_code == 415 and "Content-Type: application/json" in answer.json()["hint"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[", b'{"texts": ["\\ud800"], "task": "sst"}', b'{"a": "\xff"}', b"[" * 100_000, b"null x"]
)
def test_what_is_not_json_is_a_problem(client: TestClient, content: bytes) -> None:
    answer = send(client, content)
    assert answer.status_code == 400 and "not JSON" in answer.json()["detail"]


def test_a_body_may_have_so_many_bytes_whether_its_length_is_said_or_not(connect: Connect) -> None:
    content = json.dumps(BODY).encode()
    client = connect(max_body=len(content))
    assert send(client, content).status_code == 200
    for longer in (content + b" ", iter([content, b" " * 10])):
        answer = send(client, longer)  # type: ignore[arg-type]
        assert answer.status_code == 413 and f"at most {len(content)} bytes" in answer.json()["detail"]


@pytest.mark.parametrize("length", ["9" * 5_000, "²", "x", "-1", ""])
def test_no_content_length_is_an_unexpected_error(make_service: MakeService, length: str) -> None:
    async def scenario() -> int:
        service = make_service()
        service.engine.start()
        answer = await ask(build_app(service), "/v1/predict", BODY, headers={"Content-Length": length})
        service.engine.close()
        return answer.status

    assert asyncio.run(scenario()) == (413 if length.startswith("9") else 200)


def test_a_body_that_does_not_arrive_in_time_is_a_problem(make_service: MakeService) -> None:
    app = build_app(make_service(read_timeout=0.05))
    answer = asyncio.run(ask(app, "/v1/predict", body=[b'{"task":']))
    assert answer.status == 408 and "within 0.05 s" in answer.content["detail"]
    assert answer.headers["connection"] == "close"  # what still comes would be read for ever


def test_the_time_limit_ends_with_the_body(make_service: MakeService) -> None:
    async def scenario() -> None:
        service = make_service(read_timeout=0.2)
        asking = asyncio.ensure_future(ask(build_app(service), "/v1/predict", BODY))
        await until(lambda: service.engine.texts == 1)
        await asyncio.sleep(0.4)  # the engine has not begun; the limit is over
        assert not asking.done()
        service.engine.start()
        assert (await asking).status == 200
        service.engine.close()

    asyncio.run(scenario())


def test_who_hangs_up_before_the_body_is_complete_is_counted_as_gone(make_service: MakeService) -> None:
    async def scenario() -> int:
        gone = asyncio.Event()
        gone.set()
        return (await ask(build_app(make_service()), "/v1/predict", body=[b"{"], gone=gone)).status

    assert asyncio.run(scenario()) == 499


@pytest.mark.parametrize(("item", "text"), [("good", "good"), ("", ""), (["a", "b"], ("a", "b")), ("x" * 10, "x" * 10)])
def test_texts_and_pairs_are_read(item: Any, text: Any) -> None:
    assert read_item(0, item, SETTINGS) == text


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (5, "Expected a text, or a pair"),
        (None, "Expected a text, or a pair"),
        ([], "Expected a text, or a pair"),
        ({"a": 1}, "Expected a text, or a pair"),
        (["a", 1], "Expected a text, or a pair"),
        (["a", "b", "c"], "Expected a text, or a pair"),
        (["a"], "found one"),
        ("x" * 11, "at most 10 characters, found 11"),
        (["a", "x" * 11], "at most 10 characters, found 11"),
    ],
)
def test_other_items_are_errors_with_their_index(item: Any, says: str) -> None:
    found = read_item(7, item, SETTINGS)
    assert isinstance(found, dict) and found["error"]["index"] == 7 and says in found["error"]["detail"]


def test_the_limit_of_characters_is_a_setting() -> None:
    assert read_item(0, "x" * 11, replace(SETTINGS, max_characters=11)) == "x" * 11


def test_the_number_of_texts_has_a_limit() -> None:
    check_count(["a"] * 3, 3)
    for items, says in (([], "input: expected at least one"), (["a"] * 4, "input: expected at most 3, found 4")):
        with pytest.raises(Problem, match=says):
            check_count(items, 3, name="input")


def test_answers_are_json_also_where_a_number_is_none() -> None:
    content = {"a": [1.5, float("nan"), float("inf")], "b": ("é", None)}
    response = reply(content)
    assert response.headers["Content-Type"] == "application/json"
    assert json.loads(bytes(response.body), parse_constant=pytest.fail) == {"a": [1.5, None, None], "b": ["é", None]}
