"""POST /v1/explain: explanations as the predictor gives them, one text after the other, for who still waits."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.testclient import TestClient
from tests.unit.serving.asking import PATIENCE, ask, until
from tests.unit.serving.conftest import Connect, MakeService

from palbert.explanations.explained import TOKENS, Explained
from palbert.serving.app import build_app
from palbert.serving.audit_log import AuditLog
from palbert.serving.audit_reader import read_audit_log
from palbert.serving.model import ServedModel
from palbert.verbs.predict import Predictor

TEXTS = ["a quiet little triumph .", "the film is dull"]
PAIR = ["How do I cook rice ?", "How is rice cooked ?"]


def post(client: TestClient, status: int = 200, /, **body: Any) -> Any:
    answer = client.post("/v1/explain", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("method", ["gradient-input", "integrated-gradients", "occlusion"])
def test_explanations_are_those_of_the_predictor(client: TestClient, model: ServedModel, method: Any) -> None:
    found = post(client, task="sst", texts=TEXTS, method=method)
    assert found["run"] == model.about
    for result, wanted in zip(found["results"], model.predictor.explain("sst", TEXTS, method=method), strict=True):
        assert (result["target"], result["method"]) == (wanted.target, method)
        assert [(word["start"], word["end"]) for word in result["words"]] == [(w.start, w.end) for w in wanted.words]
        assert [word["score"] for word in result["words"]] == pytest.approx([w.score for w in wanted.words], abs=1e-4)


def test_integrated_gradients_are_the_default_and_show_their_error(client: TestClient) -> None:
    [result] = post(client, task="quora", texts=[PAIR])["results"]
    assert result["method"] == "integrated-gradients" and result["completeness_error"] <= 0.01
    assert {word["column"] for word in result["words"]} == {0, 1}


def test_a_class_interactions_and_similar_rows_can_be_asked_for(client: TestClient) -> None:
    [result] = post(client, task="sst", texts=TEXTS[:1], target="negative", similar=3)["results"]
    assert result["target"] == "negative"
    assert len(result["similar"]) == 3 and result["similar"][0].keys() >= {"texts", "answer", "similarity"}
    [result] = post(client, task="sts", texts=[PAIR], interactions=True, method="occlusion")["results"]
    assert len(result["interactions"]["values"]) == len(result["interactions"]["first"])


def test_one_bad_item_fails_alone_with_its_index(client: TestClient) -> None:
    results = post(client, task="sst", texts=[TEXTS[0], 5, PAIR, TEXTS[1]], method="gradient-input")["results"]
    assert ["error" in result for result in results] == [False, True, True, False]
    assert [results[index]["error"]["index"] for index in (1, 2)] == [1, 2]
    assert results[2]["error"]["detail"] == "Task 'sst' takes a text."


def test_what_a_task_cannot_say_is_an_error_of_each_item(client: TestClient) -> None:
    for asked, says in (
        ({"task": "sst", "texts": TEXTS[:1], "target": "negativ"}, "has no class 'negativ'"),
        ({"task": "sts", "texts": [PAIR], "target": "positive"}, "answers with a number"),
        ({"task": "sst", "texts": TEXTS[:1], "interactions": True}, "takes single texts"),
    ):
        error = post(client, **asked)["results"][0]["error"]
        assert error["status"] == 422 and says in error["detail"]


def test_an_unexpected_error_fails_its_item_alone(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = Predictor.explain

    def broken(self: Predictor, task: str, texts: Any, **asked: Any) -> Any:
        if texts == [TEXTS[1]]:
            raise RuntimeError("secret")
        return original(self, task, texts, **asked)

    monkeypatch.setattr(Predictor, "explain", broken)
    results = post(client, task="sst", texts=TEXTS, method="gradient-input")["results"]
    assert "words" in results[0] and results[1]["error"]["status"] == 500
    assert "secret" not in str(results) and "secret" in caplog.text
    [first, second] = client.post("/v1/predict", json={"task": "sst", "texts": TEXTS, "explain": True}).json()[
        "results"
    ]
    assert "words" in first["sst"]["explanation"] and second["sst"]["explanation"]["error"]["index"] == 1
    assert "prediction" in second["sst"]


def test_unknown_names_are_404(client: TestClient) -> None:
    assert "Did you mean 'topics'?" in post(client, 404, task="topic", texts=["a"])["hint"]
    assert "Did you mean 'demo'?" in post(client, 404, task="sst", texts=["a"], run="demon")["hint"]


def test_the_number_of_texts_has_its_own_limit(connect: Connect) -> None:
    client = connect(max_explained=2)
    assert "at most 2, found 3" in post(client, 422, task="sst", texts=["a"] * 3)["detail"]
    assert "at least one" in post(client, 422, task="sst", texts=[])["detail"]


class Held:
    """Makes explanations wait inside the first one; counts those that have begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self.go = threading.Event()
        original = Predictor.explain

        def explain(predictor: Predictor, task: str, texts: Any, **asked: Any) -> Any:
            self.begun.append(texts[0])
            assert self.go.wait(PATIENCE)
            return original(predictor, task, texts, **asked)

        monkeypatch.setattr(Predictor, "explain", explain)


def body(*texts: str) -> dict[str, Any]:
    return {"task": "sst", "texts": list(texts), "method": "gradient-input"}


def test_who_hangs_up_while_others_are_explained_is_not_explained(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scenario() -> None:
        service, gone = make_service(), asyncio.Event()
        app = build_app(service)
        first = asyncio.ensure_future(ask(app, "/v1/explain", body("first")))
        await until(lambda: held.begun == ["first"])
        second = asyncio.ensure_future(ask(app, "/v1/explain", body("second", "third"), gone=gone))
        await until(lambda: service.explaining == 3)
        gone.set()
        assert (await second).status == 499
        assert service.explaining == 1
        held.go.set()
        assert (await first).status == 200 and service.explaining == 0
        assert held.begun == ["first"]
        service.explainers.shutdown()

    asyncio.run(scenario())


def test_who_hangs_up_in_the_middle_gets_no_more_explained(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scenario() -> None:
        service, gone = make_service(), asyncio.Event()
        asking = asyncio.ensure_future(ask(build_app(service), "/v1/explain", body("one", "two", "three"), gone=gone))
        await until(lambda: held.begun == ["one"])
        gone.set()
        assert (await asking).status == 499
        held.go.set()
        service.explainers.shutdown()
        assert held.begun == ["one"] and service.explaining == 0

    asyncio.run(scenario())


def test_a_long_explanation_ends_when_nobody_waits_for_it(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[str] = []
    begun, go, original = threading.Event(), threading.Event(), Explained.values

    def values(explained: Explained, batch: Any) -> Any:
        batches.append("one")
        begun.set()
        assert go.wait(PATIENCE)
        return original(explained, batch)

    monkeypatch.setattr(Explained, "values", values)
    monkeypatch.setitem(TOKENS, "cpu", 16)  # a batch for each masked word

    async def scenario() -> None:
        service, gone = make_service(), asyncio.Event()
        asked = {**body("a quiet little triumph of a film"), "method": "occlusion"}
        asking = asyncio.ensure_future(ask(build_app(service), "/v1/explain", asked, gone=gone))
        await until(begun.is_set)
        gone.set()
        assert (await asking).status == 499
        go.set()
        await asyncio.to_thread(service.explainers.shutdown)

    asyncio.run(scenario())
    assert len(batches) == 1


def test_too_many_waiting_explanations_are_refused_with_a_time_to_wait(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)

    async def scenario() -> None:
        service = make_service(explain_queue=2)
        app = build_app(service)
        asking = [asyncio.ensure_future(ask(app, "/v1/explain", body("one", "two")))]
        await until(lambda: held.begun == ["one"])
        refused = await ask(app, "/v1/explain", body("three"))
        assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
        held.go.set()
        for each in asking:
            assert (await each).status == 200
        assert (await ask(app, "/v1/explain", body("three"))).status == 200
        service.explainers.shutdown()

    asyncio.run(scenario())


def test_clients_take_turns_text_by_text(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def scenario() -> None:
        service = make_service()
        app = build_app(service)
        many = asyncio.ensure_future(ask(app, "/v1/explain", body("m1", "m2", "m3", "m4")))
        await until(lambda: held.begun == ["m1"])
        one = asyncio.ensure_future(ask(app, "/v1/explain", body("one")))
        await until(lambda: service.explaining == 5)
        held.go.set()
        await asyncio.gather(many, one)
        service.explainers.shutdown()

    asyncio.run(scenario())
    assert held.begun.index("one") <= 2


def test_explanations_are_logged(connect: Connect, make_service: MakeService, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.sqlite")
    found = post(connect(make_service(audit_logs={"demo": log})), task="sst", texts=[TEXTS[0], 5, PAIR])["results"]
    assert log.flush(20)
    rows = list(read_audit_log(log.path))
    assert [(row["task"], row["input"]) for row in rows] == [("sst", TEXTS[0]), ("sst", PAIR)]
    assert rows[0]["answer"]["words"] == found[0]["words"] and "error" in rows[1]["answer"]
