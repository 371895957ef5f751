"""Answers of tasks: POST /v1/predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from palbert.errors import did_you_mean
from palbert.inference.abstaining import check_confidence
from palbert.serving.bodies import check_count, read_body, read_item, reply
from palbert.serving.explain_routes import add_explanations
from palbert.serving.jobs import Call
from palbert.serving.model import ServedModel
from palbert.serving.problems import Problem, item_error
from palbert.serving.schemas import PredictBody, parse
from palbert.serving.service import Service
from palbert.tasks.spec import Task
from palbert.verbs.texts import WANTED, Text

Answer = dict[str, Any]


async def predict(request: Request) -> Response:
    """Answer texts."""
    service: Service = request.app.state.service
    settings = service.settings
    asked: PredictBody = parse(PredictBody, await read_body(request, settings))
    check_count(asked.texts, settings.max_explained if asked.explain else settings.max_items)
    model = service.runs.get(asked.run)
    tasks = asked_tasks(model, asked)
    service.admit(request, len(asked.texts))
    items = [read_item(index, item, settings) for index, item in enumerate(asked.texts)]
    call = service.call(request, model)
    call.min_confidence = asked.min_confidence
    fill(call, model, items, tasks)
    await service.answer(request, call)
    results = collect(call, items, tasks)
    if asked.explain:
        method = "gradient-input" if asked.explain is True else asked.explain
        await add_explanations(service, request, model, items, results, method)
    rows = [
        (task.name, item, result if "error" in result else result[task.name])
        for item, result in zip(items, results, strict=True)
        if not isinstance(item, dict)
        for task in tasks
        if "error" in result or task.name in result
    ]
    service.log(request, model, rows)
    for task in tasks:
        service.metrics.texts.labels(model.name, task.name).inc(sum(task.name in result for result in results))
    return reply({"results": results, "run": model.about})


def asked_tasks(model: ServedModel, asked: PredictBody) -> list[Task]:
    """Return the tasks that a request names, or all; raise Problem for unknown ones."""
    every = list(model.tasks)
    if asked.task is None and asked.tasks is None and len(every) > 1:
        raise Problem(422, 'Which task? Give "task", or "tasks": "all".', hint=f"There are: {', '.join(every)}.")
    names = [asked.task] if asked.task is not None else every if asked.tasks in (None, "all") else asked.tasks
    assert isinstance(names, list)
    if not names:
        raise Problem(422, "tasks: expected at least one task.")
    for name in names:
        if name not in model.tasks:
            raise Problem(404, f"Unknown task '{name}'.", hint=did_you_mean(str(name), every))
    tasks = [model.tasks[name] for name in dict.fromkeys(names)]
    everybody = asked.tasks == "all" or (asked.task is None and asked.tasks is None)
    for task in tasks:  # with "all", numbers are given as they are, as in `Predictor.predict_all`
        check_confidence(asked.min_confidence, None if everybody else task)
    return tasks


def fill(call: Call, model: ServedModel, items: Sequence[Text | Answer], tasks: Sequence[Task]) -> None:
    """Add the texts to a call, each for the tasks that take it."""
    for lane, own in model.lanes(tasks).items():
        rows = [row for row, item in enumerate(items) if _width(item) == lane.columns]
        if rows:
            texts = [items[row] for row in rows]
            columns = [texts] if lane.columns == 1 else list(zip(*texts, strict=True))
            call.add(lane, columns, rows, own)  # type: ignore[arg-type]


def collect(call: Call, items: Sequence[Text | Answer], tasks: Sequence[Task]) -> list[Answer]:
    """Return what is answered for each text: an answer per task, or an error."""
    results: list[Answer] = []
    for row, item in enumerate(items):
        answers = {task.name: call.answers[row, task.name] for task in tasks if (row, task.name) in call.answers}
        if isinstance(item, dict):
            results.append(item)
        elif not answers:
            taken = ", ".join(f"{task.name} takes {WANTED[task.kind]}" for task in tasks)
            results.append(item_error(row, f"No task that was asked takes this: {taken}."))
        else:
            broken = next((answer for answer in answers.values() if "error" in answer), None)
            results.append(broken or answers)
    return results


def _width(item: Text | Answer) -> int:
    """Return how many texts an item has; 0 if it is none."""
    return 0 if isinstance(item, dict) else 1 if isinstance(item, str) else len(item)
