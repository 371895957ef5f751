"""Vectors: POST /v1/embed, and POST /v1/embeddings in the form of OpenAI's API."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from palbert.errors import did_you_mean
from palbert.serving.bodies import check_count, read_body, read_item, reply
from palbert.serving.jobs import Call
from palbert.serving.model import NOT_A_NUMBER, ServedModel
from palbert.serving.problems import Problem, item_error
from palbert.serving.schemas import EmbedBody, EmbeddingsBody, parse
from palbert.serving.service import Service
from palbert.serving.settings import Settings


async def embed(request: Request) -> Response:
    """Turn texts into vectors."""
    service: Service = request.app.state.service
    asked: EmbedBody = parse(EmbedBody, await read_body(request, service.settings))
    model = service.runs.get(asked.run)
    if asked.task is not None and asked.task not in model.tasks:
        raise Problem(404, f"Unknown task '{asked.task}'.", hint=did_you_mean(asked.task, model.tasks))
    check_count(asked.texts, service.settings.max_items)
    call, errors = await _vectors(service, request, model, asked.texts, asked)
    vectors = [call.vectors.get(row) for row in range(len(asked.texts))]
    content = {"vectors": [None if vector is None else vector.tolist() for vector in vectors], "run": model.about}
    return reply(content | ({"errors": errors} if errors else {}))


async def embeddings(request: Request) -> Response:
    """Turn texts into vectors, asked and answered as clients of OpenAI's API expect it."""
    service: Service = request.app.state.service
    asked: EmbeddingsBody = parse(EmbeddingsBody, await read_body(request, service.settings))
    model = service.runs.get(asked.model)
    width = model.inference.model.encoder.config.hidden_size
    if asked.dimensions not in (None, width):
        raise Problem(422, f"dimensions: the vectors have {width} numbers; they cannot be shortened.")
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    check_count(texts, service.settings.max_items, name="input")
    call, errors = await _vectors(service, request, model, texts, EmbedBody(texts=[], normalise=True))
    if errors:
        first = errors[0]
        raise Problem(first["status"], f"input.{first['index']}: {first['detail']}", hint=first.get("hint"))
    data = [
        {"object": "embedding", "index": row, "embedding": _encoded(call.vectors[row], asked.encoding_format)}
        for row in range(len(texts))
    ]
    usage = {"prompt_tokens": call.tokens, "total_tokens": call.tokens}
    return reply({"object": "list", "data": data, "model": model.name, "usage": usage})


async def _vectors(
    service: Service, request: Request, model: ServedModel, items: Sequence[Any], asked: EmbedBody
) -> tuple[Call, list[dict[str, Any]]]:
    """Compute the vectors of single texts; return them with the errors of those that have none."""
    lane = model.vector_lane(asked.pooling, asked.task)
    service.admit(request, len(items))
    texts = [_single(index, item, service.settings) for index, item in enumerate(items)]
    good = {row: text for row, text in enumerate(texts) if isinstance(text, str)}
    call = service.call(request, model)
    call.normalise = asked.normalise
    if good:
        call.add(lane, [list(good.values())], list(good), ())
    await service.answer(request, call)
    service.log(request, model, [("embed", text, {}) for text in good.values()])
    errors = [text["error"] for text in texts if isinstance(text, dict)]
    for row in good:
        if not np.isfinite(call.vectors[row]).all():
            del call.vectors[row]
            errors.append(item_error(row, NOT_A_NUMBER, status=500)["error"])
    return call, sorted(errors, key=lambda error: error["index"])


def _single(index: int, item: Any, settings: Settings) -> str | dict[str, Any]:
    """Return a text, or what is answered in its place."""
    text = read_item(index, item, settings)
    return item_error(index, "Expected one text, found a pair.") if isinstance(text, tuple) else text


def _encoded(vector: np.ndarray[Any, Any], form: str) -> Any:
    return vector.tolist() if form == "float" else base64.b64encode(vector.astype("<f4").tobytes()).decode()
