"""The end of a service: SIGTERM, Ctrl-C, and requests that are under way then."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import httpx
import pytest
from tests.serving.processes import PATIENCE, Server, open_request, open_where_read, serving, wait_for

from palbert.serving.audit_log import default_log
from palbert.serving.audit_reader import read_audit_log

LONG = {"tasks": "all", "texts": ["a good film and " * 120] * 256}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_what_has_begun_is_answered_and_logged_and_nobody_else_gets_in(run: Path, number: int) -> None:
    answers: list[httpx.Response] = []
    with serving(run) as server:

        def ask() -> None:
            with server.client() as client:
                answers.append(client.post("/v1/predict", json=LONG))

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        wait_for(lambda: server.metric("palbert_queue_texts") > 3 * 256, "the requests did not wait")
        server.process.send_signal(number)
        wait_for(lambda: is_refused(server), "new connections were not refused")
        still_computing = server.process.poll() is None
        for thread in threads:
            thread.join(PATIENCE)
        assert server.process.wait(PATIENCE) == 0, server.log
        assert still_computing, "the test has to ask for more"
    assert [answer.status_code for answer in answers] == [200] * 5
    assert all(len(answer.json()["results"]) == 256 for answer in answers)
    assert len(list(read_audit_log(default_log(run)))) == 5 * 256
    assert "Traceback" not in server.log


def test_a_request_that_does_not_end_does_not_stop_the_end(run: Path) -> None:
    with serving(run, "--drain", 1) as server, open_request(server) as slow:
        wait_for(lambda: b" 100 " in slow.recv(100), "the body was not expected")
        assert server.stop() == 0
        refused = slow.recv(1000)
    assert refused.startswith(b"HTTP/1.1 503 ") and b"retry-after:" in refused
    assert "1 request was not answered within 1 s." in server.log
    assert "Traceback" not in server.log


def test_a_service_that_still_loads_can_be_stopped(run: Path) -> None:
    weights = run / "checkpoints" / "best" / "model.safetensors"
    weights.unlink()
    os.mkfifo(weights)  # loading waits for what is written to it
    for number, code in ((signal.SIGTERM, 130), (signal.SIGINT, 130)):
        with Server(run) as server:
            writer = wait_for(lambda: open_where_read(weights), "the service did not load the weights")
            server.process.send_signal(signal.SIGHUP)  # asks for what is being done
            with pytest.raises(subprocess.TimeoutExpired):
                server.process.wait(0.3)
            assert server.stop(number) == code
            os.close(writer)


def is_refused(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False
