"""A real service for tests of pages and deployment files: `palbert serve` in a process of its own, asked like curl."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import palbert

ADDRESS = "http://127.0.0.1:8000"
"""Where pages say that the service is."""
QUICK = ("training.epochs=1", "training.steps_per_epoch=2", "run.tensorboard=false")
START = 180
"""Seconds that a service may take to start on a busy machine."""


def train_tiny_demo(encoder: Path, out: Path) -> Path:
    """Train the demo's recipe for two steps on a tiny encoder."""
    palbert.train("demo", out=out, overrides=[f"encoder={encoder}", *QUICK])
    return out


@contextmanager
def serving(arguments: Sequence[str], folder: Path) -> Iterator[str]:
    """Run `palbert serve` with these arguments at any free port; yield its address, and check that it ends well."""
    log = folder / "serve.log"
    command = [sys.executable, "-m", "palbert", "serve", *arguments, "--port", "0"]
    source = str(Path(palbert.__file__).parents[1])  # this palbert, wherever the process starts
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            command, cwd=folder, stdout=stream, stderr=stream, env={**os.environ, "PYTHONPATH": source}
        )
    try:
        yield _address(process, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, log.read_text("utf-8")
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the service says where it listens."""
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r" at http://\S+:(\d+) after ", log.read_text("utf-8")):
            return f"http://127.0.0.1:{found[1]}"
        time.sleep(0.05)
    raise AssertionError(f"The service did not start: {log.read_text('utf-8')}")


def curl_commands(page: str) -> list[str]:
    """Return every `curl …` in a page's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("curl ")]


def ask(command: str, address: str, key: str = "") -> httpx.Response:
    """Send what a curl command would send, to a service at another address, with a key in place of $KEY."""
    words = iter(shlex.split(command, comments=True)[1:])
    request: dict[str, Any] = {"method": "GET", "headers": {}}
    for word in words:
        if word == "--json":
            request |= {"method": "POST", "content": next(words)}
            request["headers"] |= {"Content-Type": "application/json"}
        elif word in ("-H", "--header"):
            name, _, value = next(words).partition(": ")
            request["headers"][name] = value.replace("$KEY", key)
        elif word.startswith(ADDRESS):
            request["url"] = word.replace(ADDRESS, address)
        else:
            raise AssertionError(f"Unknown argument of curl: {word}")
    return httpx.request(**request, timeout=120)
