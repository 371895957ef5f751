"""New checkpoints: they take the place of the served one while clients ask, unless something is wrong with them."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.conftest import train
from tests.serving.processes import Crowd, Server, serving, wait_for

import palbert
from palbert.serving.model import fingerprint_of

TEXTS: list[Any] = ["A quiet little triumph.", "It was bad.", ["How do I cook rice?", "How is rice cooked?"]]


def ask(client: httpx.Client, _: int) -> tuple[str, list[Any]]:
    """Ask for everything; return the fingerprint and what is answered."""
    answer = client.post("/v1/predict", json={"tasks": "all", "texts": TEXTS}).raise_for_status().json()
    return answer["run"]["fingerprint"], [sorted(result) for result in answer["results"]]


def put(checkpoint: Path, run: Path) -> str:
    """Replace the best checkpoint of a run as training does; return the new one's fingerprint."""
    best = run / "checkpoints" / "best"
    shutil.copytree(checkpoint, best.with_name(".best.new"))
    best.rename(best.with_name(".best.old"))
    best.with_name(".best.new").rename(best)
    shutil.rmtree(best.with_name(".best.old"))
    return fingerprint_of(best)


def best(run: Path) -> Path:
    return run / "checkpoints" / "best"


@pytest.mark.parametrize("by", ["SIGHUP", "--watch"])
def test_no_request_fails_while_a_new_checkpoint_takes_over(run: Path, newer: Path, by: str) -> None:
    old = fingerprint_of(best(run))
    with serving(run, *(["--watch", 0.1] if by == "--watch" else [])) as server:
        with Crowd(server, ask, size=6) as crowd:
            crowd.wait_for_answers(30)
            new = put(best(newer), run)
            if by == "SIGHUP":
                server.process.send_signal(signal.SIGHUP)
            server.wait_for_log(f"serving {new} in place of {old}")
            crowd.wait_for_answers(30)
        with server.client() as client:
            served = client.post("/v1/predict", json={"task": "sst", "texts": [TEXTS[0]]}).json()
            described = client.get("/v1/tasks").json()["runs"][0]["fingerprint"]
        replaced = server.metric("palbert_reloads_total", result="replaced")
    assert crowd.errors == []
    found = [fingerprint for fingerprint, _ in crowd.answers]
    assert old != new and set(found) == {old, new} and found[0] == old and found[-1] == new
    assert all(answered == [["sst"], ["sst"], ["quora", "sts"]] for _, answered in crowd.answers)
    assert described == served["run"]["fingerprint"] == new and replaced == 1
    [expected] = palbert.load(newer, device="cpu").predict("sst", [TEXTS[0]])
    probabilities = served["results"][0]["sst"]["probabilities"]
    assert probabilities == pytest.approx(expected.as_dict()["probabilities"], abs=1e-5)


def test_what_cannot_be_loaded_leaves_the_former_checkpoint_serving(run: Path, newer: Path) -> None:
    old = fingerprint_of(best(run))
    with serving(run, "--watch", 0.1) as server, Crowd(server, ask, size=3) as crowd:
        crowd.wait_for_answers(5)
        shutil.copy(best(newer) / "palbert.sha256", best(run))  # a copy that has just begun
        server.wait_for_log("the new checkpoint is not served, the former one is")
        wait_for(lambda: failed(server) == 1, "the failure was not counted")
        shutil.copytree(best(newer), best(run), dirs_exist_ok=True)  # and is complete now
        server.wait_for_log(f"serving {fingerprint_of(best(newer))} in place of {old}")
        shutil.rmtree(run)
        server.wait_for_log(f"{run}: no such folder")
        before = failed(server)
        wait_for(lambda: failed(server) > before + 2, "the folder was not looked for again")
        crowd.wait_for_answers(5)
        assert server.log.count("no such folder") == 1
        shutil.copytree(newer, run)
        crowd.wait_for_answers(5)
    assert crowd.errors == []
    assert {fingerprint for fingerprint, _ in crowd.answers} == {old, fingerprint_of(best(newer))}


def test_a_checkpoint_without_one_of_the_tasks_is_refused(run: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    smaller = train(tiny_encoder, tmp_path / "smaller", tasks={"sst": {}, "quora": {}})
    old = fingerprint_of(best(run))
    with serving(run) as server, server.client() as client:
        put(best(smaller), run)
        server.process.send_signal(signal.SIGHUP)
        assert "sts" in server.wait_for_log("the new checkpoint is not served")
        assert ask(client, 0)[0] == old


def failed(server: Server) -> float:
    return server.metric("palbert_reloads_total", result="failed")
