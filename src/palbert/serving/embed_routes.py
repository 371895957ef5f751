"""Vectors: POST /v1/embed, and POST /v1/embeddings in the form of OpenAI's API."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from palbert.serving.bodies import check_count, read_body, read_item, reply
from palbert.serving.jobs import Call
from palbert.serving.model import ServedModel
from palbert.serving.problems import Problem
from palbert.serving.schemas import EmbedBody, EmbeddingsBody, parse
from palbert.serving.service import Service


async def embed(request: Request) -> Response:
    """Turn texts into vectors."""
    service: Service = request.app.state.service
    asked: EmbedBody = parse(EmbedBody, await read_body(request, service.settings))
    model = service.runs.get(asked.run)
    items = list(asked.texts)
    call, errors = await _vectors(service, request, model, items, asked)
    vectors = [call.vectors.get(row) for row in range(len(items))]
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
    call, errors = await _vectors(service, request, model, list(texts), EmbedBody(texts=[], normalise=True))
    if errors:
        raise Problem(422, f"input.{errors[0]['index']}: {errors[0]['detail']}")
    data = [
        {"object": "embedding", "index": row, "embedding": _encoded(call.vectors[row], asked.encoding_format)}
        for row in range(len(texts))
    ]
    usage = {"prompt_tokens": call.tokens, "total_tokens": call.tokens}
    return reply({"object": "list", "data": data, "model": model.name, "usage": usage})


async def _vectors(
    service: Service, request: Request, model: ServedModel, items: list[Any], asked: EmbedBody
) -> tuple[Call, list[dict[str, Any]]]:
    """Compute the vectors of single texts; return them with the errors of those that have none."""
    check_count(items, service.settings.max_items)
    lane = model.vector_lane(asked.pooling, asked.task)
    service.admit(request, len(items))
    texts = [read_item(index, item, service.settings) for index, item in enumerate(items)]
    good = [row for row, text in enumerate(texts) if isinstance(text, str)]
    call = service.call(request, model)
    call.normalise = asked.normalise
    if good:
        call.add(lane, [[texts[row] for row in good]], good, ())  # type: ignore[misc]
    await service.answer(request, call)
    service.log(request, model, [("embed", texts[row], {}) for row in good])  # type: ignore[misc]
    errors = [
        {
            "index": row,
            "detail": text["error"]["detail"] if isinstance(text, dict) else "Expected one text, found a pair.",
        }
        for row, text in enumerate(texts)
        if not isinstance(text, str)
    ]
    broken = [row for row in good if not np.isfinite(call.vectors[row]).all()]
    if broken:
        raise Problem(500, f"The vector of text {broken[0]} is not a number.")
    return call, errors


def _encoded(vector: np.ndarray[Any, Any], form: str) -> Any:
    return vector.tolist() if form == "float" else base64.b64encode(vector.astype("<f4").tobytes()).decode()
