"""A service that answers by rule, so that what the page shows can be known beforehand; and a server for it."""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from palbert.serving.page_routes import page_routes

GOOD, BAD = {"good", "great", "kind"}, {"bad", "dull", "unkind"}
LONGEST = 5000
"""Characters of a text; longer ones are errors."""
READ = 400
"""Characters that the imagined model reads."""

TASKS: dict[str, Any] = {
    "mood": {
        "kind": "single",
        "target": "classes",
        "classes": ["negative", "positive"],
        "range": None,
        "metric": "accuracy",
        "score": 0.91,
        "interval": [0.88, 0.94],
        "rows": 1101,
        "examples": ["A good film.", "A dull film."],
    },
    "themes": {
        "kind": "single",
        "target": "multilabel",
        "classes": ["film", "music"],
        "range": None,
        "metric": "f1",
        "score": None,
        "interval": None,
        "rows": None,
        "examples": ["A film about music."],
    },
    "same": {
        "kind": "pair",
        "target": "binary",
        "classes": ["different", "duplicate"],
        "range": None,
        "metric": "accuracy",
        "score": 0.8,
        "interval": None,
        "rows": 164,
        "examples": [["How do I cook rice?", "How is rice cooked?"]],
    },
    "likeness": {
        "kind": "pair",
        "target": "number",
        "classes": None,
        "range": [0, 5],
        "metric": "pearson",
        "score": 0.85,
        "interval": None,
        "rows": 180,
        "examples": [["A man plays a guitar.", "Someone makes music."]],
    },
}


class FakeService:
    """What is asked is kept in `asked`; attributes make it slow, busy, broken or closed."""

    def __init__(self, reports: Mapping[str, Path] | None = None, *, tasks: dict[str, Any] | None = None) -> None:
        self.tasks = tasks or TASKS
        self.reports = dict(reports or {})
        self.bias: dict[str, Any] = {}
        self.names = ["demo"]
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.key: str | None = None
        self.refusals: list[Response] = []
        """Sent in place of the next answers of /v1/predict."""
        self.delay: Callable[[dict[str, Any]], float] = lambda body: 0.0
        self.most_texts = 100
        """How many texts a request may have."""
        self.at_once = self.most_at_once = 0

    def app(self) -> Starlette:
        """Return the routes of the contract that the page uses."""
        routes = [
            Route("/v1/tasks", self.get_tasks),
            Route("/v1/predict", self.predict, methods=["POST"]),
            Route("/v1/explain", self.explain, methods=["POST"]),
        ]
        return Starlette(routes=[*routes, *page_routes(self.reports)])

    async def get_tasks(self, request: Request) -> Response:
        if refusal := self.refused(request):
            return refusal
        about = {"fingerprint": "3f9a1c22d0aa", "encoder": "minilm", "tasks": self.tasks}
        runs = [
            {
                "name": name,
                "default": place == 0,
                "report": f"/report/{name}" if name in self.reports else None,
                "bias": self.bias.get(name),
                **about,
            }
            for place, name in enumerate(self.names)
        ]
        return JSONResponse({"runs": runs})

    async def predict(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        if refusal := self.refused(request):
            return refusal
        if self.refusals:
            return self.refusals.pop(0)
        if len(body["texts"]) > self.most_texts:
            return problem(422, "Too many", f"texts: expected at most {self.most_texts}, found {len(body['texts'])}.")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.delay(body))
        self.at_once -= 1
        results = [self.result(row, text, body) for row, text in enumerate(body["texts"])]
        return JSONResponse({"results": results, "run": {"name": body.get("run"), "fingerprint": "3f9a1c22d0aa"}})

    async def explain(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        if refusal := self.refused(request):
            return refusal
        results = [explanation(body["task"], text, body["method"], body.get("interactions")) for text in body["texts"]]
        return JSONResponse({"results": results})

    def refused(self, request: Request) -> Response | None:
        """Return the answer to a request without the key."""
        self.headers.append(dict(request.headers))
        if self.key is None or request.headers.get("Authorization") == f"Bearer {self.key}":
            return None
        return problem(401, "No key", "This server answers only with a key.")

    def result(self, row: int, text: Any, body: dict[str, Any]) -> dict[str, Any]:
        """Answer one text with all tasks."""
        if sum(map(len, [text] if isinstance(text, str) else text)) > LONGEST:
            detail = f"Expected at most {LONGEST} characters."
            return {"error": {"type": "too-long", "title": "Too long", "detail": detail, "index": row}}
        answers = {name: answer(name, text, self.tasks[name], body.get("min_confidence")) for name in body["tasks"]}
        if method := body.get("explain"):
            for name, found in answers.items():
                found["explanation"] = explanation(name, text, method)
        return answers


def problem(status: int, title: str, detail: str, **headers: str) -> Response:
    """Return an error as the service sends it."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "request_id": "req-7"}
    own = {"X-Request-Id": "req-7", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return JSONResponse(body, status, own, media_type="application/problem+json")


def words_of(text: str) -> list[tuple[int, int]]:
    """Return where the words that are read begin and end."""
    return [found.span() for found in re.finditer(r"\w+|[^\w\s]", text[:READ])]


def balance(text: str) -> int:
    """Return how many good words there are more than bad ones."""
    words = [text[start:end].lower() for start, end in words_of(text)]
    return sum((word in GOOD) - (word in BAD) for word in words)


def overlap(first: str, second: str) -> float:
    """Return the share of words that two texts have in common."""
    one, other = (set(re.findall(r"\w+", text.lower())) for text in (first, second))
    return len(one & other) / max(len(one | other), 1)


def answer(name: str, text: Any, task: dict[str, Any], min_confidence: float | None) -> dict[str, Any]:
    """Answer one text with one task."""
    if task["target"] == "number":
        return {"prediction": 5 * overlap(*text), "cut": False}
    if task["target"] == "multilabel":
        shares = [0.9 if label in text.lower() else 0.05 for label in task["classes"]]
        chosen: Any = [label for label, share in zip(task["classes"], shares, strict=True) if share > 0.5]
    else:
        share = overlap(*text) if task["kind"] == "pair" else 1 / (1 + math.exp(-1.5 * balance(text)))
        shares = [1 - share, share]
        chosen = task["classes"][share > 0.5]
    found = {
        "prediction": chosen,
        "probabilities": dict(zip(task["classes"], shares, strict=True)),
        "cut": isinstance(text, str) and len(text) > READ,
    }
    if min_confidence is not None:
        found["abstained"] = max(shares) < min_confidence
        found["prediction"] = None if found["abstained"] else chosen
    return found


def explanation(name: str, text: Any, method: str, interactions: bool | None = False) -> dict[str, Any]:
    """Explain an answer: good words speak for it, bad ones against it."""
    texts = [text] if isinstance(text, str) else text
    words = []
    for column, each in enumerate(texts):
        for start, end in words_of(each):
            word = each[start:end]
            score = 1.0 if word.lower() in GOOD else -0.5 if word.lower() in BAD else 0.02
            words.append({"text": word, "start": start, "end": end, "score": score, "column": column})
    exact = method == "integrated-gradients"
    found: dict[str, Any] = {
        "task": name,
        "target": "" if name == "likeness" else "positive",
        "method": method,
        "words": words,
        "special": 0.0,
        "output": 1.5,
        "baseline": 0.25,
        "completeness_error": 0.004 if exact else None,
        "steps": 32 if exact else None,
    }
    if interactions:
        first = [index for index, word in enumerate(words) if word["column"] == 0]
        second = [index for index, word in enumerate(words) if word["column"] == 1]
        same = [[2.0 if words[i]["text"] == words[j]["text"] else -0.3 for j in second] for i in first]
        found["interactions"] = {"first": first, "second": second, "values": same, "left_out": 0}
    return found


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """Serve an app in a thread, on a port that is free; give its address."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", lifespan="off", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive() and time.monotonic() < end, "the server of the test did not start"
        time.sleep(0.01)
    [port] = {socket.getsockname()[1] for each in server.servers for socket in each.sockets}
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()
