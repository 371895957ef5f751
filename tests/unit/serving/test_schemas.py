"""Schemas: what requests may contain, and how errors name the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from palbert.serving.problems import Problem
from palbert.serving.schemas import EmbedBody, EmbeddingsBody, ExplainBody, PredictBody, parse


def read(schema: Any, **body: Any) -> Any:
    return parse(schema, json.dumps(body).encode())


def test_defaults_are_those_that_the_api_describes() -> None:
    asked = read(PredictBody, texts=["a"])
    assert (asked.run, asked.task, asked.tasks, asked.min_confidence, asked.explain) == (None, None, None, None, False)
    assert read(EmbedBody, texts=["a"]).pooling == "mean" and not read(EmbedBody, texts=["a"]).normalise
    assert read(ExplainBody, texts=["a"], task="sst").method == "integrated-gradients"
    assert read(EmbeddingsBody, input="a").encoding_format == "float"


def test_what_a_body_may_say_is_read() -> None:
    asked = read(PredictBody, texts=["a", ["b", "c"], 5], tasks=["sst", "sts"], min_confidence=1, explain="occlusion")
    assert (asked.texts, asked.tasks, asked.explain) == (["a", ["b", "c"], 5], ["sst", "sts"], "occlusion")
    assert read(PredictBody, texts=[], tasks="all").tasks == "all"


@pytest.mark.parametrize(
    ("schema", "body", "says"),
    [
        (PredictBody, {}, "texts: Field required"),
        (PredictBody, {"texts": "a"}, "texts: Input should be a valid array"),
        (PredictBody, {"texts": [], "taks": "sst"}, "taks: Extra inputs are not permitted"),
        (PredictBody, {"texts": [], "tasks": "every"}, "tasks"),
        (PredictBody, {"texts": [], "task": "a", "tasks": "all"}, 'body: give either "task" or "tasks"'),
        (PredictBody, {"texts": [], "explain": "guess"}, "explain"),
        (PredictBody, {"texts": [], "min_confidence": 2}, "min_confidence: Input should be less than or equal to 1"),
        (ExplainBody, {"texts": []}, "task: Field required"),
        (ExplainBody, {"texts": [], "task": "a", "similar": 51}, "similar"),
        (EmbeddingsBody, {"input": [1, 2]}, "input"),
        (EmbeddingsBody, {"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_errors_name_the_place(schema: Any, body: dict[str, Any], says: str) -> None:
    with pytest.raises(Problem) as found:
        read(schema, **body)
    assert found.value.status == 422 and says in found.value.detail


def test_all_errors_are_told_at_once_but_not_without_end() -> None:
    with pytest.raises(Problem, match=r"run: .*; task: .*; texts: ") as found:
        read(ExplainBody, run=1, texts=2, task=3)
    assert found.value.hint == "See /docs."
    with pytest.raises(Problem) as many:
        parse(EmbeddingsBody, json.dumps({"input": [0] * 1000}).encode())
    assert many.value.detail.count(";") == 7


def test_what_is_no_object_is_an_error_of_the_body() -> None:
    for content in (b"[]", b"5", b"null", b'"a"'):
        with pytest.raises(Problem, match=r"^body: ") as found:
            parse(PredictBody, content)
        assert found.value.status == 422


def test_clients_of_openai_may_send_more_than_is_used() -> None:
    assert read(EmbeddingsBody, input=["a"], user="me").input == ["a"]


def test_every_field_says_what_it_is() -> None:
    for schema in (PredictBody, EmbedBody, EmbeddingsBody, ExplainBody):
        fields = schema.model_json_schema()["properties"]
        assert {name for name, field in fields.items() if not field.get("description")} == set()
