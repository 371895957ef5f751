"""Why: POST /v1/explain, and explanations next to answers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from palbert.errors import PalbertError, did_you_mean
from palbert.explanations.explained import while_wanted
from palbert.serving.bodies import check_count, read_body, read_item, reply
from palbert.serving.model import ServedModel
from palbert.serving.problems import Problem, item_error, problem_of
from palbert.serving.schemas import ExplainBody, parse
from palbert.serving.service import Service
from palbert.verbs.texts import WANTED, Text

Answer = dict[str, Any]
log = logging.getLogger(__name__)


async def explain(request: Request) -> Response:
    """Say which words led to answers."""
    service: Service = request.app.state.service
    asked: ExplainBody = parse(ExplainBody, await read_body(request, service.settings))
    check_count(asked.texts, service.settings.max_explained)
    model = service.runs.get(asked.run)
    if asked.task not in model.tasks:
        raise Problem(404, f"Unknown task '{asked.task}'.", hint=did_you_mean(asked.task, model.tasks))
    service.admit(request, len(asked.texts))
    items = [read_item(index, item, service.settings) for index, item in enumerate(asked.texts)]

    def work(index: int) -> Answer:
        item = items[index]
        return item if isinstance(item, dict) else _explained(model, asked, index, item)

    results = await in_turn(service, request, [partial(work, index) for index in range(len(items))])
    rows = [
        (asked.task, item, answer) for item, answer in zip(items, results, strict=True) if not isinstance(item, dict)
    ]
    service.log(request, model, rows)
    return reply({"results": results, "run": model.about})


def _explained(model: ServedModel, asked: ExplainBody, index: int, item: Text) -> Answer:
    """Explain one answer; return what stands in its place if that is not possible."""
    task, predictor = model.tasks[asked.task], model.predictor
    if (1 if isinstance(item, str) else len(item)) != len(task.text):
        return item_error(index, f"Task '{task.name}' takes {WANTED[task.kind]}.")

    def work() -> Answer:
        [found] = predictor.explain(
            task.name, [item], target=asked.target, method=asked.method, interactions=asked.interactions
        )
        answer = found.as_dict()
        if asked.similar:
            [near] = predictor.similar(task.name, [item], count=asked.similar)
            answer["similar"] = [row.as_dict() for row in near]
        return answer

    return _unless_failed(index, work)


def _unless_failed(index: int, work: Callable[[], Answer]) -> Answer:
    """Return what work returns, or what stands in its place if it fails: one text must not fail others."""
    try:
        return work()
    except Exception as error:
        if not isinstance(error, PalbertError):
            log.exception("An explanation failed.")
        problem = problem_of(error)
        return item_error(index, problem.detail, hint=problem.hint, status=problem.status)


async def add_explanations(
    service: Service,
    request: Request,
    model: ServedModel,
    items: Sequence[Text | Answer],
    results: Sequence[Answer],
    method: str,
) -> None:
    """Add an explanation to each answer of /v1/predict."""
    places = [(row, task) for row, result in enumerate(results) if "error" not in result for task in result]

    def work(row: int, task: str) -> Answer:
        item = items[row]
        assert not isinstance(item, dict)
        return _unless_failed(row, lambda: model.predictor.explain(task, [item], method=method)[0].as_dict())

    found = await in_turn(service, request, [partial(work, row, task) for row, task in places])
    for (row, task), explanation in zip(places, found, strict=True):
        results[row][task]["explanation"] = explanation


async def in_turn(service: Service, request: Request, work: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Do pieces of work in the thread of explanations, which other requests take turns in; stop if the client is gone.

    Raises:
        Problem: Too many texts wait for explanations.
    """
    if service.explaining >= service.settings.explain_queue:
        service.metrics.rejected.labels("queue").inc()
        raise Problem(503, "Too many texts are waiting for explanations.", retry_after=2)
    service.explaining += len(work)
    found: list[Answer] = []
    ended = threading.Event()

    def do(piece: Callable[[], Answer]) -> Answer:
        with while_wanted(lambda: not ended.is_set()):
            return piece()

    async def each() -> list[Answer]:
        for piece in work:
            found.append(await asyncio.get_running_loop().run_in_executor(service.explainers, do, piece))
            service.explaining -= 1
        return found

    try:
        return await service.unless_gone(request, asyncio.ensure_future(each()))
    finally:
        ended.set()
        service.explaining -= len(work) - len(found)
