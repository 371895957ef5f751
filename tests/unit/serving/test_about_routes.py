"""What a service says about itself: tasks, health, metrics and the description of its API."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.unit.serving.asking import PATIENCE
from tests.unit.serving.conftest import Connect, MakeService

from palbert.serving.engine import Engine
from palbert.serving.model import ServedModel


def test_tasks_say_what_they_take_and_answer(client: TestClient, served_run: Path, model: ServedModel) -> None:
    [run] = client.get("/v1/tasks").json()["runs"]
    assert (run["name"], run["fingerprint"], run["default"]) == ("demo", model.fingerprint, True)
    assert run["report"] == "/report/demo" and client.get(run["report"]).status_code == 200
    kinds = {name: (task["kind"], task["target"]) for name, task in run["tasks"].items()}
    assert kinds == {
        "sst": ("single", "classes"),
        "topics": ("single", "multilabel"),
        "quora": ("pair", "binary"),
        "sts": ("pair", "number"),
    }
    report = json.loads((served_run / "report.json").read_text("utf-8"))
    for name, task in run["tasks"].items():
        assert task["score"] == report["tasks"][name][report["metrics"][name]]
        assert task["interval"] == [report["intervals"][name]["low"], report["intervals"][name]["high"]]
        assert (task["split"], task["rows"]) == ("dev", report["rows"][name]["dev"])
        assert task["interval"][0] <= task["score"] <= task["interval"][1]
    assert run["tasks"]["quora"]["classes"] == ["different", "duplicate"] and run["tasks"]["quora"]["range"] is None
    assert run["tasks"]["sts"]["classes"] is None and run["tasks"]["sts"]["range"] == [0.0, 5.0]


def test_the_examples_of_a_task_can_be_asked(client: TestClient) -> None:
    [run] = client.get("/v1/tasks").json()["runs"]
    for name, task in run["tasks"].items():
        results = client.post("/v1/predict", json={"task": name, "texts": task["examples"]}).json()["results"]
        assert len(results) >= 3 and all(name in result for result in results)


def test_health_says_that_the_process_answers_and_computes(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    monkeypatch.setattr(Engine, "has_died", True)
    assert client.get("/healthz").status_code == 500


def test_a_service_that_drains_is_alive_but_not_ready(
    connect: Connect, make_service: MakeService, model: ServedModel
) -> None:
    service = make_service()
    client = connect(service)
    assert client.get("/readyz").json() == {"status": "ready", "runs": [model.about]}
    service.is_draining = True
    answer = client.get("/readyz")
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1
    assert client.get("/healthz").status_code == 200
    assert client.post("/v1/predict", json={"task": "sst", "texts": ["good"]}).status_code == 200


def test_metrics_are_prometheus_text(client: TestClient) -> None:
    client.post("/v1/predict", json={"task": "sst", "texts": ["good", "bad"]})
    end = time.monotonic() + PATIENCE
    while "palbert_tokens_total{" not in (answer := client.get("/metrics")).text:  # counted after the answer is sent
        assert time.monotonic() < end
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families.keys() >= {
        *("palbert_requests", "palbert_request_seconds", "palbert_texts", "palbert_tokens", "palbert_batch_tokens"),
        *("palbert_batch_seconds", "palbert_queue_texts", "palbert_rejected", "palbert_audit_dropped"),
        "palbert_reloads",
    }
    [tokens] = [each for each in families["palbert_tokens"].samples if each.name == "palbert_tokens_total"]
    assert (tokens.labels, tokens.value) == ({"run": "demo"}, 6.0)


def test_the_api_is_described_as_data_and_as_a_page(client: TestClient) -> None:
    described = client.get("/openapi.json")
    assert described.headers["Content-Type"] == "application/json" and described.json()["openapi"] == "3.1.0"
    page = client.get("/docs")
    assert (
        page.headers["Content-Type"].startswith("text/html")
        and "default-src 'none'" in (page.headers["Content-Security-Policy"])
    )
    assert all(f"{path}</code></h2>" in page.text for path in described.json()["paths"])


def test_what_is_only_read_cannot_be_posted(client: TestClient) -> None:
    for path in ("/v1/tasks", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"):
        answer = client.post(path, json={})
        assert answer.status_code == 405 and answer.headers["Content-Type"] == "application/problem+json"
        assert "GET" in answer.headers["Allow"]
