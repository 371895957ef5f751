"""A stand-in for the Hugging Face Hub: a local server that answers huggingface_hub as the Hub does."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

WRITER, READER = "hf_writer", "hf_reader"
"""A token that may write for the owners in `Hub.writable`, and one that may write nowhere."""
BATCH = re.compile(r"/(?P<repository>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
MODEL = re.compile(
    r"/api/models/(?P<repository>[^/]+/[^/]+)(?:/(?P<verb>revision|tree|preupload|commit)/(?P<revision>.+))?"
)
RESOLVE = re.compile(r"/(?P<repository>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")

Files = dict[str, bytes]


@dataclass
class Repository:
    """A repository: the files of each commit, the newest last."""

    commits: dict[str, Files] = field(default_factory=dict)
    private: bool = False

    def commit(self, files: Files) -> str:
        """Add a commit and return its id."""
        content = repr((len(self.commits), sorted(files.items()))).encode()
        found = hashlib.sha1(content).hexdigest()
        self.commits[found] = files
        return found

    @property
    def head(self) -> str:
        """The id of the newest commit."""
        return list(self.commits)[-1]

    def resolve(self, revision: str | None) -> str | None:
        """Return the commit of a revision."""
        if revision in (None, "main"):
            return self.head
        return revision if revision in self.commits else None


class Hub(ThreadingHTTPServer):
    """The server; `owner/secret` may not be read by anybody."""

    daemon_threads = True

    def __init__(self, repositories: dict[str, Files] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.repositories: dict[str, Repository] = {}
        self.writable = {"owner"}
        self.fetched: list[str] = []
        self.stored: Files = {}
        self.requests: list[str] = []
        for name, files in (repositories or {}).items():
            self.repositories[name] = Repository()
            self.repositories[name].commit(files)

    @property
    def address(self) -> str:
        """What HF_ENDPOINT has to be."""
        return f"http://127.0.0.1:{self.server_port}"

    def files(self, name: str) -> Files:
        """Return the newest files of a repository."""
        repository = self.repositories[name]
        return repository.commits[repository.head]


@contextmanager
def running(hub: Hub) -> Iterator[Hub]:
    """Answer while the block runs."""
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()


class Answer(BaseHTTPRequestHandler):
    """One answer of the server."""

    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        if "owner/secret" in path:
            self.reply(401, b"", {"X-Error-Message": "Invalid username or password."})
        elif found := RESOLVE.fullmatch(path):
            self.send_file(found["repository"], found["revision"], found["name"])
        elif found := MODEL.fullmatch(path):
            self.send_model(found["repository"], found["verb"], found["revision"])
        else:
            self.refuse(404, "RepoNotFound", "Repository not found")

    def send_model(self, name: str, verb: str | None, revision: str | None) -> None:
        """Answer what is in a repository."""
        repository = self.server.repositories.get(name)
        if repository is None:
            self.refuse(404, "RepoNotFound", "Repository not found")
            return
        commit = repository.resolve(revision)
        if commit is None:
            self.refuse(404, "RevisionNotFound", "Invalid rev id")
            return
        files = repository.commits[commit]
        if verb == "tree":
            self.send_json([{"type": "file", "path": name, "size": len(content), "oid": git_hash(content)}
                            for name, content in files.items()])  # fmt: skip
        else:
            siblings = [{"rfilename": name} for name in files]
            self.send_json({"id": name, "sha": commit, "private": repository.private, "siblings": siblings})

    def send_file(self, name: str, revision: str, file: str) -> None:
        """Answer the content of a file."""
        repository = self.server.repositories.get(name)
        commit = repository.resolve(revision) if repository else None
        if repository is None or commit is None or file not in repository.commits[commit]:
            self.refuse(404, "EntryNotFound" if commit else "RepoNotFound", "Not found")
            return
        content = repository.commits[commit][file]
        self.server.fetched.append(file)
        self.reply(200, content, {"ETag": f'"{git_hash(content)}"', "X-Repo-Commit": commit})

    def do_PUT(self) -> None:
        content = self.body()
        found = hashlib.sha256(content).hexdigest()
        self.server.requests.append(f"PUT {self.path}")
        if self.path != f"/stored/{found}":
            self.refuse(400, "BadRequest", "another content than promised")
            return
        self.server.stored[found] = content
        self.reply(200, b"", {})

    def do_POST(self) -> None:
        path, body = unquote(urlsplit(self.path).path), self.body()
        self.server.requests.append(f"POST {path}")
        if path == "/api/validate-yaml":
            self.validate(json.loads(body)["content"])
            return
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in (WRITER, READER):
            self.refuse(401, None, "Invalid username or password.")
        elif path == "/api/repos/create":
            self.create(json.loads(body), token)
        elif found := BATCH.fullmatch(path):
            self.send_json(
                {"transfer": "basic", "objects": [self.promise(each) for each in json.loads(body)["objects"]]}
            )
        elif (found := MODEL.fullmatch(path)) and found["verb"] == "preupload":
            files = [{"path": each["path"], "shouldIgnore": False, "oid": None,
                      "uploadMode": "lfs" if each["path"].endswith(".safetensors") else "regular"}
                     for each in json.loads(body)["files"]]  # fmt: skip
            self.send_json({"files": files})
        elif found and found["verb"] == "commit":
            self.commit(found["repository"], [json.loads(line) for line in body.splitlines()])
        else:
            self.refuse(404, "RepoNotFound", "Repository not found")

    def validate(self, card: str) -> None:
        """Check the metadata of a card as the Hub does, roughly."""
        values = yaml.safe_load(card.split("---\n")[1])
        wrong = [{"message": '"license" must be one of a list'}] if values.get("license") == "wrong" else []
        self.reply(400 if wrong else 200, json.dumps({"errors": wrong, "warnings": []}).encode(), {})

    def create(self, asked: dict[str, Any], token: str) -> None:
        """Make a repository with the file that the Hub puts into each."""
        name = f"{asked['organization']}/{asked['name']}"
        if token == READER or asked["organization"] not in self.server.writable:
            self.refuse(403, None, "You don't have the rights to create a model under this namespace")
        elif name in self.server.repositories:
            self.send_json({"error": "You already created this model repo", "url": name}, status=409)
        else:
            made = self.server.repositories[name] = Repository(private=asked.get("visibility") == "private"
                                                               or asked.get("private") is True)  # fmt: skip
            made.commit({".gitattributes": b"*.safetensors filter=lfs\n"})
            self.send_json({"url": f"{self.server.address}/{name}"})

    def promise(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Say where a large file is to be put."""
        href = f"{self.server.address}/stored/{asked['oid']}"
        return {"oid": asked["oid"], "size": asked["size"], "actions": {"upload": {"href": href}}}

    def commit(self, name: str, lines: list[dict[str, Any]]) -> None:
        """Apply all operations of a commit at once."""
        repository = self.server.repositories[name]
        files = dict(repository.commits[repository.head])
        for line in lines:
            value = line["value"]
            if line["key"] == "header" and value.get("parentCommit") not in (None, repository.head):
                self.refuse(412, None, "A commit has happened since. Please refresh and try again.")
                return
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.stored[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        made = repository.commit(files)
        self.send_json({"success": True, "commitOid": made, "commitUrl": f"{self.server.address}/{name}/commit/{made}"})

    def body(self) -> bytes:
        """Read what was sent, in chunks or with its length."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def send_json(self, values: Any, status: int = 200) -> None:
        """Answer with JSON."""
        self.reply(status, json.dumps(values).encode(), {"Content-Type": "application/json"})

    def refuse(self, status: int, code: str | None, message: str) -> None:
        """Answer with an error as the Hub marks it."""
        self.reply(status, b"", {**({"X-Error-Code": code} if code else {}), "X-Error-Message": message})

    def reply(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        """Answer."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


def git_hash(content: bytes) -> str:
    """Return the id that git gives a file, as a short one of its content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def point_at(hub: Hub, cache: Path, patch: pytest.MonkeyPatch) -> None:
    """Let huggingface_hub in this process talk to a hub, as HF_ENDPOINT does before it is imported."""
    from huggingface_hub import constants

    patch.setattr(constants, "ENDPOINT", hub.address)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}")
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # its storage is another server
    patch.setattr(constants, "HF_TOKEN_PATH", str(cache / "no-token"))
    patch.setenv("NO_PROXY", "*")
    patch.setenv("HF_TOKEN", WRITER)


def environment(hub: Hub, cache: Path, **others: str) -> dict[str, str]:
    """Return the environment of another process that talks to a hub."""
    return {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "*", "PYTHONPATH": os.pathsep.join(sys.path),
            **others}  # fmt: skip
