"""OpenAPI: a description of the service that clients can be made from, and a page of it."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from palbert import __version__
from palbert.serving.gateway import GUARDED
from palbert.serving.schemas import EmbedBody, EmbeddingsBody, ExplainBody, PredictBody
from palbert.serving.settings import Settings

REF = "#/components/schemas/{model}"
BODIES: dict[str, tuple[type[BaseModel], str, str]] = {
    "/v1/predict": (PredictBody, "Answer texts and pairs by one task, several, or all.", "Answers"),
    "/v1/explain": (ExplainBody, "Say which words led to answers.", "Explanations"),
    "/v1/embed": (EmbedBody, "Turn texts into vectors.", "Vectors"),
    "/v1/embeddings": (EmbeddingsBody, "Turn texts into vectors, as OpenAI's API does.", "Embeddings"),
}
"""What each route takes, does and returns."""
EXAMPLES: dict[str, Any] = {
    "/v1/predict": {"task": "sst", "texts": ["A quiet little triumph."]},
    "/v1/explain": {"task": "sst", "texts": ["A quiet little triumph."]},
    "/v1/embed": {"texts": ["A quiet little triumph."], "normalise": True},
    "/v1/embeddings": {"input": ["A quiet little triumph."], "model": "demo"},
}
READ = {
    "/v1/tasks": ("List the runs and what each of their tasks takes and answers.", "application/json"),
    "/healthz": ("Say that the process answers.", "application/json"),
    "/readyz": ("Say whether texts are answered.", "application/json"),
    "/metrics": ("Metrics for Prometheus.", "text/plain"),
}
_ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
_RUN = {
    "type": "object",
    "required": ["name", "fingerprint"],
    "properties": {
        "name": {"type": "string"},
        "fingerprint": {"type": "string", "description": "Identifies the checkpoint's content."},
    },
}
_RESULTS = {
    "type": "object",
    "required": ["results", "run"],
    "properties": {"results": {"type": "array", "items": _ANY}, "run": {"$ref": REF.format(model="Run")}},
}
_VECTOR = {"type": "array", "items": {"type": "number"}}
RETURNED: dict[str, Any] = {
    "Run": _RUN,
    "Answers": _RESULTS | {"description": "Per text an object with an answer per task, or with an error."},
    "Explanations": _RESULTS | {"description": "Per text the scores of its words, or an error."},
    "Vectors": {
        "type": "object",
        "required": ["vectors", "run"],
        "properties": {
            "vectors": {"type": "array", "items": {"anyOf": [_VECTOR, {"type": "null"}]}},
            "run": {"$ref": REF.format(model="Run")},
            "errors": {"type": "array", "items": _ANY},
        },
    },
    "Embeddings": {
        "type": "object",
        "required": ["object", "data", "model", "usage"],
        "properties": {
            "object": {"const": "list"},
            "data": {"type": "array", "items": _ANY},
            "model": {"type": "string"},
            "usage": _ANY,
        },
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail", "request_id"],
        "properties": {
            **{name: {"type": "string"} for name in ("type", "title", "detail", "hint", "request_id")},
            "status": {"type": "integer"},
        },
    },
}
PROBLEMS = {
    400: "The body is not JSON.",
    401: "An API key is needed, or it is unknown.",
    403: "A service without keys was asked under a foreign name.",
    404: "Unknown task or run.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "The body is not said to be JSON.",
    422: "The body is not what is expected; the detail says where.",
    429: "The client's limit of texts per second is reached; Retry-After says when to ask again.",
    500: "Something unexpected; the server's log says more.",
    503: "Too many texts are waiting, or the service is stopping; Retry-After says when to ask again.",
}


@lru_cache(1)
def openapi(settings: Settings) -> dict[str, Any]:
    """Return the description, as OpenAPI 3.1; it is not to be changed."""
    bodies: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = []
    bodies += [(body, "validation") for body, _, _ in BODIES.values()]
    _, definitions = models_json_schema(bodies, ref_template=REF)
    paths: dict[str, Any] = {}
    for path, (body, summary, returned) in BODIES.items():
        content = {"schema": {"$ref": REF.format(model=body.__name__)}, "example": EXAMPLES[path]}
        paths[path] = {
            "post": {
                "operationId": path.removeprefix("/v1/"),
                "summary": summary,
                "requestBody": {"required": True, "content": {"application/json": content}},
                "responses": {"200": _response(summary, REF.format(model=returned)), **_problems(PROBLEMS)},
            }
        }
    for path, (summary, media) in READ.items():
        answer = {"description": summary, "content": {media: {}}}
        paths[path] = {
            "get": {
                "operationId": path.rpartition("/")[2],
                "summary": summary,
                "responses": {"200": answer, **_problems((401, 403, 500, 503))},
                **({} if path.startswith(GUARDED) else {"security": []}),
            }
        }
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "palbert", "version": __version__, "description": _limits(settings)},
        "paths": paths,
        "components": {"schemas": {**definitions["$defs"], **RETURNED}},
    }
    if not settings.is_open:
        described["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"key": []}]
    return described


def _response(summary: str, reference: str) -> dict[str, Any]:
    return {"description": summary, "content": {"application/json": {"schema": {"$ref": reference}}}}


def _problems(statuses: Any) -> dict[str, Any]:
    schema = {"$ref": REF.format(model="Problem")}
    return {
        str(status): {"description": PROBLEMS[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in statuses
    }


def _limits(settings: Settings) -> str:
    return (
        f"At most {settings.max_items} texts per request ({settings.max_explained} with explanations), "
        f"{settings.max_characters:,} characters per text and {settings.max_body:,} bytes per request."
    )


@lru_cache(1)
def docs_page(settings: Settings) -> str:
    """Return a page of the description."""
    templates = Environment(
        loader=PackageLoader("palbert.serving", "templates"), autoescape=True, undefined=StrictUndefined
    )
    templates.filters["as_json"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    return templates.get_template("docs.html.jinja").render(described=openapi(settings))
