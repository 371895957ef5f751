"""OpenAPI: the description is that of the service, whatever a client sends that fits it, or does not."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient
from tests.unit.serving.conftest import Connect, MakeService

from palbert.serving.gateway import ROUTES
from palbert.serving.model import ServedModel
from palbert.serving.openapi import BODIES, EXAMPLES, READ, docs_page, openapi
from palbert.serving.problems import TITLES
from palbert.serving.settings import Settings

SETTINGS = Settings(runs=(("demo", Path("demo")),))
GUARDED = Settings(runs=SETTINGS.runs, keys=Path("keys.json"))
EXAMPLES_PER_MODE = 150


def test_every_route_is_described() -> None:
    described = openapi(SETTINGS)
    assert described["openapi"] == "3.1.0" and {*BODIES, *READ} == set(described["paths"]) == set(ROUTES)
    for path, methods in described["paths"].items():
        [(method, route)] = methods.items()
        assert method == ("post" if path in BODIES else "get") and route["summary"].endswith(".")
        assert {int(status) for status in route["responses"]} <= set(TITLES)
    ids = [route["operationId"] for methods in described["paths"].values() for route in methods.values()]
    assert len(set(ids)) == len(ids)


def test_every_reference_leads_to_a_schema() -> None:
    described = openapi(SETTINGS)

    def references(value: Any) -> Any:
        if isinstance(value, dict):
            yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            for each in value.values():
                yield from references(each)
        elif isinstance(value, list):
            for each in value:
                yield from references(each)

    found = set(references(described))
    assert {reference.rpartition("/")[2] for reference in found} <= set(described["components"]["schemas"])
    assert len(found) >= 9 and all(reference.startswith("#/components/schemas/") for reference in found)


def test_keys_are_described_where_they_are_needed() -> None:
    opened, guarded = openapi(SETTINGS), openapi(GUARDED)
    assert "security" not in opened and guarded["security"] == [{"key": []}]
    assert guarded["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
    free = {path for path, methods in guarded["paths"].items() if methods.get("get", {}).get("security") == []}
    assert free == {"/healthz", "/readyz"}


def test_the_limits_are_those_of_the_settings() -> None:
    described = openapi(Settings(runs=SETTINGS.runs, max_items=7, max_characters=8_000, max_body=9_000))
    assert (
        "At most 7 texts" in described["info"]["description"] and "8,000 characters" in described["info"]["description"]
    )


def test_the_page_shows_every_route_with_a_command_to_try_it() -> None:
    page = docs_page(SETTINGS)
    for path, example in EXAMPLES.items():
        assert f"POST {path}</code></h2>" in page and str(next(iter(example))) in page
    assert page.count("curl ") == len(BODIES) and "min_confidence" in page and "<script" not in page
    assert "API key" not in page.partition("<section>")[0] and "API key" in docs_page(GUARDED)


def test_the_examples_of_the_description_are_answered(client: TestClient) -> None:
    for path, example in EXAMPLES.items():
        body = example | ({"task": "sst"} if path == "/v1/embed" else {})
        answer = client.post(path, json=body)
        assert answer.status_code == (422 if path == "/v1/embeddings" else 200), answer.text  # one vector per adapter


def knowing(described: dict[str, Any]) -> dict[str, Any]:
    """Return the description with the names that the service knows, so that requests get further than to a 404."""
    described = copy.deepcopy(described)
    names = {"run": ["demo"], "model": ["plain"], "task": ["sst", "topics", "quora", "sts"], "pooling": ["mean", "cls"]}
    for body, _, _ in BODIES.values():
        properties = described["components"]["schemas"][body.__name__]["properties"]
        for name, known in names.items():
            if name in properties:
                properties[name] = {"enum": known}
        if "tasks" in properties:
            del properties["task"]  # both together are an error
            properties["tasks"] = {"anyOf": [{"const": "all"}, {"type": "array", "items": {"enum": names["task"]}}]}
        if "texts" in properties:
            properties["texts"]["minItems"] = 1
    return described


def check(answer: Any, described: dict[str, Any], path: str, method: str) -> None:
    """Compare an answer with the description."""
    jsonschema = pytest.importorskip("jsonschema", reason="comes with schemathesis")
    responses = described["paths"][path][method]["responses"]
    assert str(answer.status_code) in responses and answer.status_code < 500, (answer.status_code, answer.text)
    [(media, content)] = responses[str(answer.status_code)]["content"].items()
    assert answer.headers["Content-Type"].partition(";")[0] == media
    if "schema" in content:
        schema = {**content["schema"], "components": described["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("names", ["any", "known"])
def test_nothing_that_is_sent_is_an_unexpected_error(
    connect: Connect, make_service: MakeService, model: ServedModel, plain: ServedModel, mode: str, names: str
) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="needs Schemathesis: pip install schemathesis")
    generation = pytest.importorskip("schemathesis.generation").GenerationMode(mode)
    client = connect(make_service(model, plain, max_items=20, max_explained=4))
    published = client.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(knowing(published) if names == "known" else published)
    statuses: Counter[tuple[str, int]] = Counter()

    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.method == "get" and mode == "negative":
            continue  # there is nothing to send wrongly

        @settings(
            max_examples=EXAMPLES_PER_MODE, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=generation))
        def ask(case: Any) -> None:
            sent = case.as_transport_kwargs(base_url="http://127.0.0.1")
            body = {"content": sent["data"]} if "data" in sent else {"json": sent["json"]} if "json" in sent else {}
            headers = {name: value for name, value in sent["headers"].items() if name.lower() != "content-length"}
            answer = client.request(sent["method"], sent["url"], headers=headers, **body)
            statuses[case.path, answer.status_code] += 1
            check(answer, published, case.path, case.method.lower())

        ask()
    assert {path for path, _ in statuses} == set(BODIES if mode == "negative" else published["paths"])
    if (mode, names) == ("positive", "known"):
        # How many cases are answered depends on the constants that Hypothesis finds in the modules loaded so far.
        assert all(statuses[path, 200] >= 5 for path in BODIES), statuses
    if (mode, names) == ("negative", "any"):
        assert all(statuses[path, 400] + statuses[path, 422] >= 20 for path in BODIES), statuses
