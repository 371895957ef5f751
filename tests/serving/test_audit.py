"""The audit log of a service whose disk is full."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.serving.processes import PATIENCE, Server, serving, wait_for

from palbert.serving.audit_log import default_log
from palbert.serving.audit_reader import read_audit_log

TEXTS = ["A quiet little triumph."] * 256
pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")


def fill_disk(server: Server) -> None:
    """Let no file of the service grow, as on a full disk."""
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, hard))


def free_disk(server: Server) -> None:
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


def ask(client: httpx.Client, texts: list[str]) -> httpx.Response:
    return client.post("/v1/predict", json={"task": "sst", "texts": texts})


def test_policy_serve_answers_and_counts_what_is_missing(run: Path) -> None:
    with serving(run, "--audit-full", "serve") as server, server.client() as client:
        ask(client, ["before"]).raise_for_status()
        wait_for(lambda: list(read_audit_log(default_log(run))), "the first row was not written")
        fill_disk(server)
        asked = 1
        while not (dropped := server.metric("palbert_audit_dropped_total")):
            assert ask(client, TEXTS).status_code == 200
            asked += len(TEXTS)
            assert asked < 30_000, "nothing was dropped"
        server.wait_for_log("the audit log is not written")
        assert client.get("/readyz").status_code == 200
        free_disk(server)
        server.wait_for_log("written again")
        ask(client, ["after"]).raise_for_status()
        assert server.stop() == 0
    written = [entry["input"] for entry in read_audit_log(default_log(run))]
    assert written[0] == "before" and written[-1] == "after"
    assert dropped > 0 and len(written) == asked + 1 - dropped
    assert "Traceback" not in server.log


def test_policy_refuse_refuses_until_there_is_space_and_loses_nothing(run: Path) -> None:
    with serving(run, "--audit-full", "refuse") as server, server.client() as client:
        assert ask(client, ["before"]).status_code == 200
        fill_disk(server)
        answers: list[httpx.Response] = []
        refused = wait_for(
            lambda: answers.append(ask(client, [f"text {len(answers)}"])) or answers[-1].status_code == 503,
            "the full disk was not noticed",
        )
        assert refused and int(answers[-1].headers["Retry-After"]) > 0
        assert answers[-1].headers["Content-Type"] == "application/problem+json"
        for path, body in (("/v1/embed", {"texts": ["x"]}), ("/v1/explain", {"task": "sst", "texts": ["x"]})):
            assert client.post(path, json=body).status_code == 503
        assert server.metric("palbert_rejected_total", reason="audit") == 3
        free_disk(server)
        wait_for(lambda: ask(client, ["after"]).status_code == 200, "the service did not recover")
        assert server.stop() == 0
    accepted = [f"text {number}" for number, answer in enumerate(answers) if answer.status_code == 200]
    assert [entry["input"] for entry in read_audit_log(default_log(run))] == ["before", *accepted, "after"]


def test_what_is_answered_stands_in_the_log_that_the_command_prints(run: Path) -> None:
    with serving(run) as server, server.client() as client:
        pair = ["How do I cook rice?", "How is rice cooked?"]
        asked = {"tasks": "all", "texts": ["A film.", pair, 7]}
        answer = client.post("/v1/predict", json=asked, headers={"X-Request-Id": "mine-1"})
        client.post("/v1/embed", json={"texts": ["A vector."]}).raise_for_status()
        explained = client.post("/v1/explain", json={"task": "sst", "texts": ["A reason."]})
        assert server.stop() == 0
    command = [sys.executable, "-m", "palbert", "audit", "log", str(run)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    rows = [json.loads(line) for line in printed.splitlines()]
    single, both, broken = answer.json()["results"]
    assert "error" in broken and answer.headers["X-Request-Id"] == "mine-1"
    expected = [
        ("sst", "A film.", single["sst"]),
        ("quora", pair, both["quora"]),
        ("sts", pair, both["sts"]),
        ("embed", "A vector.", {}),
        ("sst", "A reason.", explained.json()["results"][0]),
    ]
    assert [(row["task"], row["input"], row["answer"]) for row in rows] == expected
    assert {row["request_id"] for row in rows[:3]} == {"mine-1"}
    assert {row["fingerprint"] for row in rows} == {answer.json()["run"]["fingerprint"]}
