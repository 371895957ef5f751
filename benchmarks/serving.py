"""Requests per second and latency of services over loopback: palbert, and what users write with other libraries.

All serve the same encoder with a linear head, and get the same texts, one per request unless said otherwise, from the
same client in another process, which asks again as soon as it is answered. The servers take turns; those that do not
are stopped. palbert's offline throughput is measured in the same rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inference_cpu import make_texts
from measuring import describe, machine_facts, write
from serving_servers import NAMES

import palbert
from palbert.model.pretrained import resolve_encoder

SAMPLES = {"train": "sst-train.tsv", "dev": "sst-dev.tsv", "kind": "single", "text": "sentence", "label": "sentiment"}
CLASSES = ["0", "1", "2", "3", "4"]
TASKS = ("tone", "mood", "grade")
WARM_UP, ROWS = 1.0, 512
HEAD = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
GPU_RIVALS = [
    "palbert bf16",
    "sentence-transformers, FastAPI",
    "sentence-transformers bf16, FastAPI",
    "Starlette alone",
]
CPU_RIVALS = [name for name in NAMES if "bf16" not in name]


def make_run(folder: Path, encoder: Path) -> Path:
    """Train a run of three tasks for a step: answers cost as much as those of a good one."""
    task = {**SAMPLES, "target": "classes", "classes": CLASSES, "pooling": "mean"}
    values = {
        "data": "samples",
        "encoder": str(encoder),
        "tasks": {name: dict(task) for name in TASKS},
        "training": {"epochs": 1, "steps_per_epoch": 1, "batch_size": 4},
        "optimizer": {"learning_rate": 1e-5},
        "run": {"tensorboard": False},
    }
    return palbert.train(palbert.make_recipe(values), out=folder / "run").path


class Server:
    """A server in a process of its own."""

    def __init__(self, name: str, run: Path, encoder: Path) -> None:
        command = [sys.executable, str(Path(__file__).with_name("serving_servers.py")), name]
        self.process = subprocess.Popen(
            [*command, "--run", str(run), "--encoder", str(encoder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.port = self._read()["port"]

    def used(self) -> dict[str, Any]:
        """Return the processor time so far."""
        assert self.process.stdin is not None
        self.process.stdin.write("measure\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError(f"the server ended with {self.process.wait()}")

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


@contextmanager
def serving(name: str, run: Path, encoder: Path) -> Iterator[Server]:
    """Start a server, and end it."""
    server = Server(name, run, encoder)
    try:
        yield server
    finally:
        server.close()


def bodies_for(texts: Sequence[str], question: dict[str, Any]) -> list[bytes]:
    """Return whole requests, one text in each."""
    requests = []
    for text in texts:
        body = json.dumps({**question, "texts": [text]}).encode()
        requests.append(HEAD % len(body) + body)
    return requests


async def one_client(port: int, requests: Sequence[bytes], first: int, end: float, seconds: list[float]) -> None:
    """Ask again and again over one connection; note the seconds of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = first
    while time.perf_counter() < end:
        start = time.perf_counter()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:20]:
            raise RuntimeError(head.decode("latin-1"))
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        seconds.append(time.perf_counter() - start)
        number += 1
    writer.close()
    await writer.wait_closed()


async def many_clients(port: int, requests: Sequence[bytes], clients: int, duration: float) -> list[float]:
    """Let clients ask for some seconds; return the seconds of all answers."""
    seconds: list[float] = []
    end, apart = time.perf_counter() + duration, len(requests) // clients
    await asyncio.gather(*(one_client(port, requests, apart * each, end, seconds) for each in range(clients)))
    return seconds


def measure(server: Server, requests: Sequence[bytes], clients: int, duration: float) -> dict[str, float]:
    """Let clients ask a server; return requests per second, latency and the server's processor time per request."""
    asyncio.run(many_clients(server.port, requests, clients, WARM_UP))
    before, start = server.used(), time.perf_counter()
    seconds = asyncio.run(many_clients(server.port, requests, clients, duration))
    elapsed, after = time.perf_counter() - start, server.used()
    middle, tail = np.percentile(seconds, [50, 99])
    return {
        "requests_per_second": len(seconds) / elapsed,
        "p50_seconds": float(middle),
        "p99_seconds": float(tail),
        "cpu_seconds_per_request": (after["cpu"] - before["cpu"]) / len(seconds),
    }


def offline(run: Path, texts: Sequence[str], precision: str) -> float:
    """Return the texts per second of `predict` on many texts, in a process of its own."""
    code = (
        "import json, sys, time, palbert\n"
        "texts = json.load(sys.stdin)\n"
        f"model = palbert.load({str(run)!r}, precision={precision!r})\n"
        f"model.predict({TASKS[0]!r}, texts[:64])\n"
        "start = time.perf_counter()\n"
        f"model.predict({TASKS[0]!r}, texts)\n"
        "print(len(texts) / (time.perf_counter() - start))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def questions_for(name: str) -> dict[str, dict[str, Any]]:
    """Return what a server is asked, each with what is added to its name in the table; rivals have one task."""
    if not name.startswith("palbert"):
        return {"": {}}
    one = {"": {"task": TASKS[0]}}
    return one if "," in name else {**one, ", three tasks": {"tasks": list(TASKS)}}


def median_of(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each number over the rounds."""
    return {name: statistics.median(each[name] for each in found) for name in found[0]}


def main() -> None:
    """Measure all servers in turn, so that a busy machine affects all alike; print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=NAMES, help="the servers to measure")
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    arguments = parser.parse_args()
    names = arguments.only or (GPU_RIVALS if torch.cuda.is_available() else CPU_RIVALS)
    encoder, texts = resolve_encoder(arguments.encoder), make_texts(ROWS)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), encoder)
        for _ in range(arguments.rounds):
            for name in names:
                with serving(name, run, encoder) as server:
                    for added, question in questions_for(name).items():
                        requests = bodies_for(texts, question)
                        for clients in arguments.clients:
                            result = measure(server, requests, clients, arguments.seconds)
                            found.setdefault(name + added, {}).setdefault(str(clients), []).append(result)
                precision = name.removeprefix("palbert ")
                if precision in ("fp32", "bf16", "int8"):
                    rates.setdefault(precision, []).append(offline(run, texts, precision))
            facts = facts_of(arguments, found, rates)
            write(facts, arguments.out)
    print_table(facts)
    print(json.dumps(facts))


def facts_of(
    arguments: argparse.Namespace,
    found: dict[str, dict[str, list[dict[str, float]]]],
    rates: dict[str, list[float]],
) -> dict[str, Any]:
    """Return the medians of what has been measured so far."""
    return {
        "benchmark": "serving",
        "encoder": Path(arguments.encoder).name,
        "seconds": arguments.seconds,
        "rounds": max(len(each) for sizes in found.values() for each in sizes.values()),
        "servers": {
            name: {clients: median_of(each) for clients, each in sizes.items()} for name, sizes in found.items()
        },
        "offline_texts_per_second": {name: statistics.median(each) for name, each in rates.items()},
        "load": os.getloadavg()[0],
        **machine_facts(
            torch.device("cuda" if torch.cuda.is_available() else "cpu"),
            **{
                name: _version(name)
                for name in ("uvicorn", "starlette", "fastapi", "sentence-transformers", "onnxruntime")
            },
        ),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        return describe(error)


def print_table(facts: dict[str, Any]) -> None:
    """Print a line per server and number of clients."""
    print(f"{'':40}{'clients':>8}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs':>9}")
    for name, sizes in facts["servers"].items():
        for clients, own in sizes.items():
            times = [own[key] * 1e3 for key in ("p50_seconds", "p99_seconds")]
            shown = f"{own['requests_per_second']:12.1f}{times[0]:9.2f}{times[1]:9.2f}"
            print(f"{name:40}{clients:>8}{shown}{own['cpu_seconds_per_request'] * 1e6:9.0f}")
    for precision, rate in facts["offline_texts_per_second"].items():
        print(f"offline {precision}: {rate:.1f} texts/s")


if __name__ == "__main__":
    main()
