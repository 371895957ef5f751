"""POST /v1/embed and /v1/embeddings: vectors as the predictor gives them, also as clients of OpenAI's API ask."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

import torch
from starlette.testclient import TestClient
from tests.unit.serving.conftest import Connect

from palbert.serving.audit_log import AuditLog
from palbert.serving.audit_reader import read_audit_log
from palbert.serving.model import ServedModel

TEXTS = ["a quiet little triumph .", "dull", "the film is good"]


@pytest.fixture
def openai(connect: Connect, make_service: Any, plain: ServedModel) -> TestClient:
    return connect(make_service(plain))


def post(client: TestClient, path: str, status: int = 200, /, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("asked", [{}, {"normalise": True}, {"pooling": "cls"}, {"pooling": "pooler", "task": "sst"}])
def test_vectors_are_those_of_the_predictor(openai: TestClient, plain: ServedModel, asked: dict[str, Any]) -> None:
    if asked.get("pooling") == "pooler" and not plain.inference.model.encoder.config.pooler:
        assert "no pooler" in post(openai, "/v1/embed", 422, texts=TEXTS, **asked)["detail"]
        return
    found = post(openai, "/v1/embed", texts=TEXTS, **asked)
    np.testing.assert_allclose(np.array(found["vectors"]), plain.predictor.embed(TEXTS, **asked), atol=1e-5)
    assert found["run"] == plain.about and "errors" not in found


def test_vectors_pass_through_the_adapter_of_the_task(client: TestClient, model: ServedModel) -> None:
    for task in ("sst", "quora"):
        found = post(client, "/v1/embed", texts=TEXTS, task=task)["vectors"]
        np.testing.assert_allclose(np.array(found), model.predictor.embed(TEXTS, task=task), atol=1e-5)
    problem = post(client, "/v1/embed", 422, texts=TEXTS)
    assert "a different vector for each" in problem["detail"] and "sst, topics, quora, sts" in problem["hint"]


def test_unknown_names_are_errors_with_the_nearest_known_one(client: TestClient) -> None:
    assert "Did you mean 'sts'?" in post(client, "/v1/embed", 404, texts=TEXTS, task="stt")["hint"]
    assert "Did you mean 'demo'?" in post(client, "/v1/embed", 404, texts=TEXTS, run="dem")["hint"]
    assert "Did you mean 'mean'?" in post(client, "/v1/embed", 422, texts=TEXTS, task="sst", pooling="men")["hint"]
    assert "Unknown run" in post(client, "/v1/embeddings", 404, input="a", model="text-embedding-3-small")["detail"]


def test_bad_items_have_no_vector_and_an_error_with_their_index(connect: Connect) -> None:
    found = post(connect(max_characters=9), "/v1/embed", texts=["good", 5, ["a", "b"], "x" * 10, "ok"], task="sst")
    assert [vector is None for vector in found["vectors"]] == [False, True, True, True, False]
    assert [(error["index"], error["status"]) for error in found["errors"]] == [(1, 422), (2, 422), (3, 422)]
    assert "one text, found a pair" in found["errors"][1]["detail"]


def test_a_request_with_bad_items_alone_is_answered(client: TestClient, passes: list[int]) -> None:
    assert post(client, "/v1/embed", texts=[1], task="sst")["vectors"] == [None] and passes == []


def test_the_number_of_texts_has_a_limit(connect: Connect) -> None:
    client = connect(max_items=2)
    for path, name in (("/v1/embed", "texts"), ("/v1/embeddings", "input")):
        body: dict[str, Any] = {name: ["a", "b", "c"]}
        assert post(client, path, 422, **body)["detail"] == f"{name}: expected at most 2, found 3."
        assert post(client, path, 422, **{name: []})["detail"] == f"{name}: expected at least one text."


def test_a_vector_that_is_not_a_number_fails_its_text_alone(openai: TestClient, plain: ServedModel) -> None:
    word = int(plain.predictor.tokenizer(["good"]).values[0])
    weights = plain.inference.model.encoder.embeddings.word.weight
    kept = weights[word].clone()
    with torch.no_grad():
        weights[word] = float("nan")
    try:
        found = post(openai, "/v1/embed", texts=TEXTS)
        assert [vector is None for vector in found["vectors"]] == [False, False, True]
        assert [(error["index"], error["status"]) for error in found["errors"]] == [(2, 500)]
        assert "input.2: " in post(openai, "/v1/embeddings", 500, input=TEXTS)["detail"]
    finally:
        with torch.no_grad():
            weights[word] = kept


def test_embeddings_have_the_form_of_openai(openai: TestClient, plain: ServedModel) -> None:
    found = post(openai, "/v1/embeddings", input=TEXTS, model="plain", user="somebody")
    assert (found["object"], found["model"]) == ("list", "plain")
    assert [(each["object"], each["index"]) for each in found["data"]] == [("embedding", row) for row in range(3)]
    wanted = plain.predictor.embed(TEXTS, normalise=True)
    np.testing.assert_allclose(np.array([each["embedding"] for each in found["data"]]), wanted, atol=1e-5)
    tokens = sum(len(text.split()) + 2 for text in TEXTS)
    assert found["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


def test_one_text_may_be_given_alone_and_vectors_as_base64(openai: TestClient) -> None:
    [as_numbers] = post(openai, "/v1/embeddings", input="good")["data"]
    [as_bytes] = post(openai, "/v1/embeddings", input="good", encoding_format="base64", dimensions=32)["data"]
    decoded = np.frombuffer(base64.b64decode(as_bytes["embedding"]), dtype="<f4")
    np.testing.assert_allclose(decoded, as_numbers["embedding"], atol=1e-6)


def test_vectors_cannot_be_shortened(openai: TestClient) -> None:
    assert "have 32 numbers" in post(openai, "/v1/embeddings", 422, input="a", dimensions=16)["detail"]


def test_a_text_that_is_too_long_fails_a_request_for_embeddings(
    connect: Connect, make_service: Any, plain: Any
) -> None:
    problem = post(connect(make_service(plain, max_characters=5)), "/v1/embeddings", 422, input=["a", "x" * 6])
    assert problem["detail"] == "input.1: Expected at most 5 characters, found 6."


def test_texts_are_logged_without_their_vectors(
    connect: Connect, make_service: Any, plain: ServedModel, tmp_path: Path
) -> None:
    log = AuditLog(tmp_path / "log.sqlite")
    client = connect(make_service(plain, audit_logs={"plain": log}))
    post(client, "/v1/embed", texts=["good", 5])
    post(client, "/v1/embeddings", input="dull")
    assert log.flush(20)
    rows = list(read_audit_log(log.path))
    assert [(row["task"], row["input"], row["answer"]) for row in rows] == [
        ("embed", "good", {}),
        ("embed", "dull", {}),
    ]
