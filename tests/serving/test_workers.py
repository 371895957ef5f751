"""Several processes that answer at one address."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.serving.processes import Crowd, Server, open_where_read, serving, wait_for

from palbert.serving.audit_log import default_log
from palbert.serving.audit_reader import read_audit_log
from palbert.serving.model import fingerprint_of

ASKED = {"tasks": "all", "texts": ["A quiet little triumph.", ["How do I cook rice?", "How is rice cooked?"]]}


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def status(process: int) -> tuple[int, int]:
    """Return the parent of a process and how long it has computed; (0, 0) if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    return (0, 0) if fields[0] == "Z" else (int(fields[1]), int(fields[11]))


def workers(server: Server) -> list[int]:
    """Return the processes that answer."""
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    children = [process for process in processes if status(process)[0] == server.process.pid]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def ask(client: httpx.Client, _: int) -> tuple[str, str]:
    """Ask on a new connection, which any process may take; return the request's id and the fingerprint."""
    answer = client.post("/v1/predict", json=ASKED, headers={"Connection": "close"}).raise_for_status()
    return answer.headers["X-Request-Id"], answer.json()["run"]["fingerprint"]


def test_two_processes_answer_count_and_log_every_request_once(run: Path, newer: Path) -> None:
    old, new = (fingerprint_of(each / "checkpoints" / "best") for each in (run, newer))
    with serving(run, "--workers", 2) as server:
        first = workers(server)
        idle = [status(each)[1] for each in first]
        with Crowd(server, ask, size=4) as crowd:
            crowd.wait_for_answers(100)
            wait_for(
                lambda: all(status(each)[1] > was for each, was in zip(first, idle, strict=True)),
                "one of the processes did nothing",
            )
            shutil.rmtree(run / "checkpoints" / "best")
            shutil.copytree(newer / "checkpoints" / "best", run / "checkpoints" / "best")
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log(f"serving {new} in place of {old}", times=2)
            before = len(crowd.answers)
            crowd.wait_for_answers(100)
        assert crowd.errors == []
        answered = len(crowd.answers)
        counted = server.metric("palbert_requests_total", route="/v1/predict", status="200")
        texts = server.metric("palbert_texts_total", task="sst")
        assert len(workers(server)) == 2 and server.metric("palbert_reloads_total", result="replaced") == 2
        assert server.stop() == 0
        assert not any(status(each)[0] for each in first)
    assert counted == texts == answered
    assert {fingerprint for _, fingerprint in crowd.answers[before + 8 :]} == {new}
    logged = Counter((entry["request_id"], entry["task"]) for entry in read_audit_log(default_log(run)))
    assert logged == Counter((request, task) for request, _ in crowd.answers for task in ("sst", "quora", "sts"))
    assert "Traceback" not in server.log


def test_a_killed_process_is_replaced_and_the_others_answer_meanwhile(run: Path) -> None:
    with serving(run, "--workers", 2) as server:
        victim, other = workers(server)
        os.kill(victim, signal.SIGKILL)
        server.wait_for_log(f"Process {victim} ended with code -9; another one takes its place.")
        with server.client() as client:
            for number in range(10):
                ask(client, number)
        server.wait_for_log(" answers.")
        assert len(workers(server)) == 2 and other in workers(server)
        shutil.rmtree(run)  # now no process can start
        os.kill(other, signal.SIGKILL)
        server.wait_for_log(f"{run}: no such folder", times=2)
        with server.client() as client:
            for number in range(10):
                ask(client, number)
        assert server.metric("palbert_queue_texts") == 0
        assert server.stop() == 0


def test_shared_metrics_have_their_space_on_the_disk_from_the_start(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with serving(run, "--workers", 2, environment={"TMPDIR": str(folder)}) as server:
        files = [path.stat() for path in folder.rglob("*.db")]
        assert len(files) == 2 * 3
        # A process that writes to a hole of a file while the disk is full is killed.
        assert all(512 * status.st_blocks >= status.st_size > 0 for status in files)
        assert server.stop() == 0
    assert list(folder.iterdir()) == []


def test_a_run_that_cannot_be_loaded_ends_all_processes_with_one_error(run: Path) -> None:
    (run / "checkpoints" / "best" / "model.safetensors").write_bytes(b"not weights")
    with Server(run, "--workers", 2) as server:
        assert server.process.wait(120) == 2
        server.wait_for_log("error: A process ended with code")
    assert server.log.count("model.safetensors: damaged") == 1
    assert "Traceback" not in server.log and "Serving" not in server.log


def test_what_is_asked_of_a_process_that_loads_is_done_when_it_answers(run: Path, newer: Path) -> None:
    best = run / "checkpoints" / "best"
    old, new = (fingerprint_of(each / "checkpoints" / "best") for each in (run, newer))
    with serving(run, "--workers", 2) as server:
        victim, _ = workers(server)
        os.kill(victim, signal.SIGKILL)
        server.wait_for_log("another one takes its place")
        shutil.rmtree(best)
        shutil.copytree(newer / "checkpoints" / "best", best)
        server.process.send_signal(signal.SIGHUP)  # one process answers, the other one loads
        server.wait_for_log(f"serving {new} in place of {old}")
        server.wait_for_log(" answers.")

        def is_new() -> bool:
            with server.client() as client:
                return {ask(client, number)[1] for number in range(20)} == {new}

        wait_for(is_new, "a process serves the former checkpoint")
        assert len(workers(server)) == 2 and "ended with code -1;" not in server.log
        assert server.stop() == 0


def test_processes_that_still_load_can_be_stopped(run: Path) -> None:
    weights = run / "checkpoints" / "best" / "model.safetensors"
    weights.unlink()
    os.mkfifo(weights)  # loading waits for what is written to it
    with Server(run, "--workers", 2) as server:
        writer = wait_for(lambda: open_where_read(weights), "the processes did not load the weights")
        assert server.stop() == 130
        os.close(writer)
    assert "Serving" not in server.log and "Traceback" not in server.log


def test_a_run_that_only_one_process_cannot_load_says_why(run: Path, tmp_path: Path) -> None:
    (run / "checkpoints" / "best" / "model.safetensors").write_bytes(b"not weights")
    shared = tmp_path / "metrics"
    shared.mkdir()
    (shared / "reason-was-said").touch()  # of an earlier service
    with Server(run, "--workers", 2, environment={"PROMETHEUS_MULTIPROC_DIR": str(shared)}) as server:
        assert server.process.wait(120) == 2
        server.wait_for_log("model.safetensors: damaged")
    assert server.log.count("model.safetensors: damaged") == 1


def test_processes_end_with_the_one_that_looks_after_them(run: Path) -> None:
    with serving(run, "--workers", 2) as server:
        children = workers(server)
        os.kill(server.process.pid, signal.SIGKILL)
        wait_for(lambda: not any(status(each)[0] for each in children), "processes answer without the first one")
