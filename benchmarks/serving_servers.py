"""The servers that `serving.py` asks, each a process of its own: palbert, and what users write with other libraries.

A server prints its port, and reads lines from standard input: for "measure" it prints its processor time so far.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from pydantic import BaseModel

LONGEST = 128
HEAD_SEED = 0


class Texts(BaseModel):
    """The body of a request to the rivals."""

    texts: list[str]


def make_head(width: int, classes: int) -> torch.nn.Linear:
    """Return a linear head, the same for all rivals."""
    torch.manual_seed(HEAD_SEED)
    return torch.nn.Linear(width, classes).eval()


def palbert_app(run: Path, *, precision: str, audit: str = "off", empty: bool = False) -> Any:
    """Return palbert's service; if `empty`, one whose tokens and outputs cost nothing."""
    from palbert.serving.app import build_app
    from palbert.serving.server import build_service
    from palbert.serving.settings import Settings

    settings = Settings(
        runs=(("run", run),), port=0, precision=precision, audit=audit,  # type: ignore[arg-type]
        audit_log=run.with_suffix(".audit.sqlite"), max_items=4096,
    )  # fmt: skip
    service = build_service(settings)
    if empty:
        _empty(service.runs.get())
    return build_app(service)


def _empty(model: Any) -> None:
    """Let a model's tokens and outputs cost nothing, so that what is left is the service's own work."""
    from palbert.data.ragged import Ragged

    def tokenize(texts: Sequence[str]) -> Ragged:
        return Ragged(np.full(8 * len(texts), 7, dtype=np.int32), np.arange(0, 8 * len(texts) + 1, 8, dtype=np.int64))

    def outputs(asked: Sequence[Any]) -> list[torch.Tensor]:
        return [
            torch.zeros(len(each.tokens[0]), sum(model.tasks[name].outputs for name in each.forward.question.tasks))
            for each in asked
        ]

    tokenize.template = model.predictor.tokenizer.template  # type: ignore[attr-defined]
    model.predictor.tokenizer = tokenize
    model.inference.run_together = outputs


def sentence_transformers_app(encoder: Path, *, bf16: bool = False) -> Any:
    """Return sentence-transformers behind FastAPI, as its users write it; `bf16` is an option of theirs."""
    from fastapi import FastAPI
    from sentence_transformers import SentenceTransformer

    options: dict[str, Any] = {"model_kwargs": {"dtype": torch.bfloat16}} if bf16 else {}
    model = SentenceTransformer(str(encoder), device="cuda" if torch.cuda.is_available() else "cpu", **options)
    model.max_seq_length = LONGEST
    head = make_head(int(model.get_embedding_dimension() or 384), 5).to(model.device)

    app = FastAPI()

    @app.post("/v1/predict")
    def predict(body: Texts) -> dict[str, Any]:
        with torch.inference_mode():
            vectors = model.encode(body.texts, convert_to_tensor=True, show_progress_bar=False)
            shares = head(vectors.float()).softmax(-1).tolist()
        return {"results": [{"prediction": int(np.argmax(row)), "probabilities": row} for row in shares]}

    return app


def onnxruntime_app(encoder: Path, *, int8: bool) -> Any:
    """Return onnxruntime behind the Starlette that palbert uses; a request is computed by itself, in a thread."""
    from anyio import to_thread
    from onnx_models import OnnxWay, with_onnxruntime
    from pydantic_core import to_json
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    embed = with_onnxruntime(encoder, OnnxWay(int8, fused=True), longest=LONGEST)
    head = make_head(len(embed(["a text"])[0]), 5)

    def answer(texts: list[str]) -> list[list[float]]:
        with torch.inference_mode():
            shares: list[list[float]] = head(torch.from_numpy(embed(texts))).softmax(-1).tolist()
        return shares

    async def predict(request: Request) -> Response:
        body = Texts.model_validate_json(await request.body())
        shares = await to_thread.run_sync(answer, body.texts)
        results = [{"prediction": int(np.argmax(row)), "probabilities": row} for row in shares]
        return Response(to_json({"results": results}), media_type="application/json")

    return Starlette(routes=[Route("/v1/predict", predict, methods=["POST"])])


def nothing_app(encoder: Path) -> Any:
    """Return Starlette and pydantic alone: a body is read and checked, and the same answer is given to all."""
    from pydantic_core import to_json
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def predict(request: Request) -> Response:
        body = Texts.model_validate_json(await request.body())
        results = [{"prediction": 0, "probabilities": [0.2] * 5} for _ in body.texts]
        return Response(to_json({"results": results}), media_type="application/json")

    return Starlette(routes=[Route("/v1/predict", predict, methods=["POST"])])


APPS: dict[str, Callable[[Path, Path], Any]] = {
    "palbert fp32": lambda run, _: palbert_app(run, precision="fp32"),
    "palbert fp32, audit log": lambda run, _: palbert_app(run, precision="fp32", audit="texts"),
    "palbert int8": lambda run, _: palbert_app(run, precision="int8"),
    "palbert bf16": lambda run, _: palbert_app(run, precision="bf16"),
    "palbert, empty model": lambda run, _: palbert_app(run, precision="fp32", empty=True),
    "sentence-transformers, FastAPI": lambda _, encoder: sentence_transformers_app(encoder),
    "sentence-transformers bf16, FastAPI": lambda _, encoder: sentence_transformers_app(encoder, bf16=True),
    "onnxruntime fp32, Starlette": lambda _, encoder: onnxruntime_app(encoder, int8=False),
    "onnxruntime int8, Starlette": lambda _, encoder: onnxruntime_app(encoder, int8=True),
    "Starlette alone": lambda _, encoder: nothing_app(encoder),
}


WORKERS = "palbert fp32, two workers"
"""`palbert serve --workers 2`: a process for each of two cores."""
NAMES = (*APPS, WORKERS)


def serve_by_workers(run: Path) -> None:
    """Let the command line serve a run with two processes until standard input ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--workers", "2", "--port", str(port), "--precision", "fp32", "--audit", "off", "--max-items", "4096"]
    server = subprocess.Popen([sys.executable, "-m", "palbert", "serve", f"run={run}", *options])
    while server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            if answer.status == 200:
                break
        time.sleep(0.1)
    print(json.dumps({"port": port}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"cpu": _processor_time(server.pid)}), flush=True)
    server.terminate()
    server.wait()


def _processor_time(process: int) -> float:
    """Return the seconds that a process and its children have used so far, as Linux counts them."""
    used = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    children = Path(f"/proc/{process}/task/{process}/children").read_text("utf-8").split()
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK") + sum(map(_processor_time, map(int, children)))


def main() -> None:
    """Serve on a free port of this machine until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.name == WORKERS:
        serve_by_workers(arguments.run)
        return
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    app = APPS[arguments.name](arguments.run, arguments.encoder)
    config = uvicorn.Config(app, http="httptools", ws="none", access_log=False, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    for _ in sys.stdin:
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({"cpu": used.ru_utime + used.ru_stime}), flush=True)
    server.should_exit = True
    thread.join()


if __name__ == "__main__":
    main()
