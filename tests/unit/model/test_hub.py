"""Encoders of the Hub: fetched from a local server that answers as the Hub does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROGRAM = """
import json, sys
from palbert.errors import EncoderError
from palbert.model.pretrained import load_encoder, resolve_encoder

found = {}
for name in sys.argv[1:]:
    try:
        folder = resolve_encoder(name)
        load_encoder(folder)
        found[name] = sorted(file.name for file in folder.iterdir())
    except EncoderError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


class Hub(ThreadingHTTPServer):
    """A server with one model, `owner/tiny`, at one commit; `owner/secret` may not be read by anybody."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = files
        self.fetched: list[str] = []


class Answer(BaseHTTPRequestHandler):
    """One answer of the server."""

    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        files = self.server.files
        if "owner/secret" in path:
            self.reply(401, b"", {"X-Error-Message": "Invalid username or password."})
        elif path in ("/api/models/owner/tiny/revision/main", f"/api/models/owner/tiny/revision/{COMMIT}",
                      "/api/models/owner/tiny"):  # fmt: skip
            self.send_json({"id": "owner/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]})
        elif path.startswith("/api/models/owner/tiny/tree/"):
            entries = [{"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                       for name, content in files.items()]  # fmt: skip
            self.send_json(entries)
        elif path.startswith("/api/models/owner/tiny/revision/"):
            self.reply(404, b"", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        elif path.startswith(f"/owner/tiny/resolve/{COMMIT}/") and (name := path.split("/", 5)[5]) in files:
            content = files[name]
            self.server.fetched.append(name)
            headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            self.reply(200, content, headers)
        else:
            self.reply(404, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})

    def send_json(self, values: Any) -> None:
        self.reply(200, json.dumps(values).encode(), {"Content-Type": "application/json"})

    def reply(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hub(tiny_encoder: Path) -> Iterator[Hub]:
    """Start a server of the tiny encoder with files that nobody needs."""
    files = {file.name: file.read_bytes() for file in tiny_encoder.iterdir()}
    unneeded = ["modeling.py", "pytorch_model.bin", "README.md", "onnx/model.onnx", "training_args.bin", "evil.pkl"]
    server = Hub({**files, **dict.fromkeys(unneeded, b"not needed")})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def resolve(hub: Hub, cache: Path, *names: str) -> dict[str, Any]:
    """Resolve encoders in a process of its own, since the address of the Hub is read on import."""
    address = f"http://127.0.0.1:{hub.server_port}"
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_XET": "1",
                   "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "*",
                   "PYTHONPATH": os.pathsep.join(sys.path)}  # fmt: skip
    command = [sys.executable, "-c", PROGRAM, *names]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_only_needed_files_are_fetched_and_errors_say_what_to_do(hub: Hub, tmp_path: Path) -> None:
    pinned, absent = f"owner/tiny@{COMMIT}", "owner/tiny@v9"
    found = resolve(hub, tmp_path, "owner/tiny", pinned, absent, "owner/none", "owner/secret")
    needed = ["config.json", "model.safetensors", "tokenizer.json"]
    assert found["owner/tiny"] == needed
    assert found[pinned] == needed
    assert set(hub.fetched) == set(needed)
    assert "it has no revision 'v9'" in found[absent] and "A revision is a branch, a tag or a commit." in found[absent]
    assert "the Hub has no such model, or it is private" in found["owner/none"]
    assert "the Hub refuses access to it" in found["owner/secret"]
    assert all("hf auth login" in found[name] for name in ("owner/none", "owner/secret"))
