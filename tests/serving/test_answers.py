"""What real services answer: several runs, adapters, int8, long texts, and many clients at once."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serving.conftest import train
from tests.serving.processes import PATIENCE, Server, serving

import palbert
from palbert.runtime.precision import has_int8

SINGLES = ["A quiet little triumph.", "It was bad.", "a"]
PAIRS = [["How do I cook rice?", "How is rice cooked?"], ["A man plays a guitar.", "Nobody sleeps."]]


@pytest.fixture(scope="module")
def quiet(made: Path) -> Iterator[Server]:
    """Start a server for tests that only ask."""
    with serving(made, "--audit", "off") as server:
        yield server


def predict(client: httpx.Client, **asked: Any) -> list[dict[str, Any]]:
    return client.post("/v1/predict", json=asked).raise_for_status().json()["results"]


def expected(run: Path, texts: list[Any], **settings: Any) -> list[dict[str, Any]]:
    """Return what the Python interface answers, by text and task."""
    predictor = palbert.load(run, device="cpu", **settings)
    columns: list[dict[str, Any]] = [{} for _ in texts]
    for name, task in predictor.tasks.items():
        rows = [row for row, text in enumerate(texts) if isinstance(text, str) == (len(task.text) == 1)]
        given = [text if isinstance(text, str) else tuple(text) for text in (texts[row] for row in rows)]
        for row, answer in zip(rows, predictor.predict(name, given), strict=True):
            columns[row][name] = {**answer.as_dict(), "cut": False}
    return columns


def check_equal(found: list[dict[str, Any]], wanted: list[dict[str, Any]], *, within: float = 1e-5) -> None:
    assert [sorted(each) for each in found] == [sorted(each) for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        for task, answer in other.items():
            if "probabilities" in answer:
                assert one[task]["probabilities"] == pytest.approx(answer["probabilities"], abs=within)
            else:
                assert one[task]["prediction"] == pytest.approx(answer["prediction"], abs=10 * within)
            assert one[task]["cut"] == answer["cut"]


def test_several_runs_answer_each_with_its_own_model(run: Path, adapted: Path, newer: Path) -> None:
    texts = [*SINGLES, *PAIRS]
    with serving(f"a={run}", f"pals={adapted}", newer, "--audit", "off") as server, server.client() as client:
        described = client.get("/v1/tasks").json()["runs"]
        assert [(each["name"], each["default"]) for each in described] == [
            ("a", True),
            ("pals", False),
            ("mine", False),
        ]
        assert len({each["fingerprint"] for each in described}) == 3
        check_equal(predict(client, tasks="all", texts=texts), expected(run, texts))
        for name, folder in (("a", run), ("pals", adapted), ("mine", newer)):
            check_equal(predict(client, run=name, tasks="all", texts=texts), expected(folder, texts))
        unknown = client.post("/v1/predict", json={"run": "b", "task": "sst", "texts": ["x"]})
        vectors = client.post("/v1/embed", json={"texts": SINGLES})
        undecided = client.post("/v1/embed", json={"run": "pals", "texts": SINGLES})
        own = client.post("/v1/embed", json={"run": "pals", "texts": SINGLES, "task": "sst"})
    assert unknown.status_code == 404 and "a" in unknown.json()["hint"]
    assert np.allclose(vectors.json()["vectors"], palbert.load(run, device="cpu").embed(SINGLES), atol=1e-5)
    assert undecided.status_code == 422 and "adapter" in undecided.json()["detail"]
    assert np.allclose(own.json()["vectors"], palbert.load(adapted, device="cpu").embed(SINGLES, task="sst"), atol=1e-5)


def test_two_runs_of_one_name_are_an_error(run: Path, newer: Path) -> None:
    with Server(run, newer) as server:
        assert server.process.wait(PATIENCE) == 2
        server.wait_for_log("Two runs have the name 'mine'.")


@pytest.mark.skipif(not has_int8(), reason="needs a CPU with VNNI or AMX")
def test_int8_answers_as_predict_does(run: Path) -> None:
    texts = [*SINGLES, *PAIRS]
    with serving(run, "--precision", "int8", "--audit", "off") as server, server.client() as client:
        check_equal(predict(client, tasks="all", texts=texts), expected(run, texts, precision="int8"), within=0.02)


def test_long_texts_are_cut_and_say_so_and_bad_ones_fail_alone(run: Path) -> None:
    long = "a good film and " * 1000
    texts: list[Any] = ["short", long, [long, "short"], "x" * 20_001, "", ["one"], ["a", "b", "c"], None, "🎉"]
    with serving(run, "--max-body", 100_000, "--audit", "off") as server, server.client() as client:
        results = predict(client, tasks="all", texts=texts)
        assert [{name: answer["cut"] for name, answer in result.items()} for result in results[:3]] == [
            {"sst": False},
            {"sst": True},
            {"quora": True, "sts": True},
        ]
        assert [index for index, result in enumerate(results) if "error" in result] == [3, 5, 6, 7]
        assert [results[index]["error"]["index"] for index in (3, 5, 6, 7)] == [3, 5, 6, 7]
        too_many = client.post("/v1/predict", json={"task": "sst", "texts": ["x"] * 257})
        too_long = client.post("/v1/predict", json={"task": "sst", "texts": ["x" * 1000] * 200})
        huge = predict(client, task="sst", texts=["a good film"])
    assert too_many.status_code == 422 and too_long.status_code == 413
    assert "sst" in huge[0]


def test_a_request_of_several_batches_is_answered_like_each_of_its_texts(quiet: Server) -> None:
    texts = ["a good film and " * 40, "It was bad.", *PAIRS]  # the first one is cut to 128 tokens
    before = quiet.metric("palbert_batch_tokens_count")
    with quiet.client() as client:
        many = predict(client, tasks="all", texts=texts * 64)
        batches = quiet.metric("palbert_batch_tokens_count") - before
        few = predict(client, tasks="all", texts=texts)
    assert batches > 1
    check_equal(many, few * 64)


def test_a_text_longer_than_a_batch_is_answered(tiny_modernbert: Path, tmp_path: Path) -> None:
    encoder = Path(shutil.copytree(tiny_modernbert, tmp_path / "long-encoder"))
    config = json.loads((encoder / "config.json").read_text())
    (encoder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    run = train(encoder, tmp_path / "long", tasks={"sst": {"max_length": 3000}})
    texts = ["a good film and " * 700, "short", "a good film and " * 800, "It was bad."]  # a batch has 1024 tokens
    with serving(run, "--audit", "off") as server, server.client() as client:
        together = predict(client, texts=texts)
        alone = [predict(client, texts=[text])[0] for text in texts]
    assert [answer["sst"]["cut"] for answer in together] == [False, False, True, False]
    check_equal(together, alone)


@pytest.mark.parametrize(
    "body", [rb'{"task": "sst", "texts": ["\ud800"]}', b'{"task": "sst", "texts": ["\xff"]}', b"[" * 9999]
)
def test_bodies_that_are_no_text_are_refused(quiet: Server, body: bytes) -> None:
    with quiet.client(headers={"Content-Type": "application/json"}) as client:
        refused = client.post("/v1/predict", content=body)
    assert refused.status_code in (400, 422) and refused.json()["request_id"] == refused.headers["X-Request-Id"]


def test_many_clients_at_once_get_the_answers_of_one(quiet: Server) -> None:
    questions: list[tuple[str, dict[str, Any]]] = [
        ("/v1/predict", {"tasks": "all", "texts": [*SINGLES, *PAIRS]}),
        ("/v1/predict", {"task": "sst", "texts": SINGLES, "explain": True}),
        ("/v1/predict", {"tasks": ["quora", "sts"], "texts": PAIRS, "explain": "occlusion"}),
        ("/v1/embed", {"texts": SINGLES, "normalise": True}),
        ("/v1/embed", {"texts": SINGLES, "pooling": "cls", "task": "sst"}),
        ("/v1/embeddings", {"input": SINGLES, "model": "mine"}),
        ("/v1/explain", {"task": "sst", "texts": SINGLES[:2], "method": "integrated-gradients"}),
        ("/v1/explain", {"task": "sts", "texts": PAIRS[:1], "interactions": True, "similar": 3}),
    ]
    with quiet.client() as client:
        alone = [client.post(path, json=body).raise_for_status().json() for path, body in questions]
    found: list[list[Any]] = [[] for _ in questions]

    def ask(number: int) -> None:
        with quiet.client() as own:
            for turn in range(len(questions)):
                place = (number + turn) % len(questions)
                path, body = questions[place]
                found[place].append(own.post(path, json=body).raise_for_status().json())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for wanted, answers in zip(alone, found, strict=True):
        assert len(answers) == 16
        for answer in answers:
            check_alike(answer, wanted)


def check_alike(found: Any, wanted: Any) -> None:
    """Compare two answers; numbers may differ by rounding."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            check_alike(found[name], value)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check_alike(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=2e-4)
    else:
        assert found == wanted
