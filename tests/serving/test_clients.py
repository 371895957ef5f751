"""Clients that are many, slow, silent, gone or greedy."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.serving.processes import PATIENCE, Crowd, Server, open_request, serving, wait_for

SHORT = {"task": "sst", "texts": ["A quiet little triumph."]}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_ten_times_the_load_is_refused_politely_in_constant_memory(run: Path) -> None:
    asked = {"tasks": "all", "texts": ["a good film and " * 30] * 16}

    def ask(client: httpx.Client, _: int) -> tuple[int, bool]:
        answer = client.post("/v1/predict", json=asked)
        return answer.status_code, "Retry-After" in answer.headers

    with serving(run, "--queue", 32) as server, server.client() as client:
        before = client.post("/v1/predict", json=SHORT).json()
        with Crowd(server, ask, size=30) as crowd:  # the queue has room for two or three of them
            crowd.wait_for_answers(400)
            warm = server.memory()
            crowd.wait_for_answers(2000)
            grown = server.memory() - warm
        after = client.post("/v1/predict", json=SHORT).json()
        rejected = server.metric("palbert_rejected_total", reason="queue")
        wait_for(lambda: server.metric("palbert_queue_texts") == 0, "the queue did not empty")
        assert server.process.poll() is None
    counts = Counter(crowd.answers)
    assert crowd.errors == [] and set(counts) == {(200, False), (503, True)}
    assert counts[503, True] > counts[200, False] > 0 and rejected == counts[503, True]
    assert grown < 30_000_000
    assert after == before
    assert "Traceback" not in server.log


def test_a_client_that_hangs_up_is_not_computed(run: Path) -> None:
    asked = {"task": "sst", "texts": ["a good film and " * 32] * 256}
    with serving(run) as server, server.client() as client:
        client.post("/v1/predict", json=asked).raise_for_status()
        tokens_per_text = server.metric("palbert_tokens_total") / 256
        gone = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
        for connection in gone:
            connection.sendall(post("/v1/predict", asked))

        def waiting() -> tuple[float, float]:
            """Return how many texts wait and how many tokens were computed, if enough wait."""
            found = server.metrics()
            texts = found["palbert_queue_texts", ""]
            return (texts, found["palbert_tokens_total", 'run="mine"']) if texts > 6 * 256 else (0, 0)

        wait_for(lambda: waiting()[0], "the requests did not wait")
        texts, before = waiting()
        for connection in gone:
            connection.close()
        wait_for(lambda: server.metric("palbert_queue_texts") == 0, "texts stay in the queue")
        computed = (server.metric("palbert_tokens_total") - before) / tokens_per_text
        hung_up = server.metric("palbert_requests_total", route="/v1/predict", status="499")
        failed = server.metric("palbert_requests_total", status="500")
    assert texts > 0 and computed < 0.6 * texts, "the test or the service was too slow to notice"
    assert hung_up > 2 and failed == 0
    assert "Traceback" not in server.log


@pytest.fixture(scope="module")
def calm(made: Path) -> Iterator[Server]:
    """Start a server with the usual limits."""
    with serving(made, "--audit", "off") as server:
        yield server


@pytest.fixture(scope="module")
def impatient(made: Path) -> Iterator[Server]:
    """Start a server that waits for half a second only."""
    with serving(made, "--read-timeout", 0.5, "--audit", "off") as server:
        yield server


def test_slow_clients_are_cut_off(impatient: Server) -> None:
    with open_request(impatient) as no_body:
        assert b" 100 " in no_body.recv(100)
        answer = read_to_end(no_body)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"The body did not arrive within 0.5 s." in answer
    for begin in (b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"\r\n"):
        with connected(impatient) as silent:
            silent.sendall(begin)
            assert read_to_end(silent) == b""


def test_a_head_that_comes_drop_by_drop_is_cut_off(impatient: Server) -> None:
    with connected(impatient) as slow, pytest.raises(OSError):
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            slow.sendall(b"X: y\r\n")
            time.sleep(0.05)


HEADS = {
    "many fields": b"X:\r\n" * 20_000,
    "a long field": b"X: " + b"x" * 60_000,
    "a long path": b"x" * 60_000,
    "trailers": b"Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X:\r\n" * 20_000,
}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("kind", HEADS)
def test_a_head_without_end_is_refused_before_it_takes_memory(calm: Server, kind: str) -> None:
    before = calm.memory()
    begin = b"POST /" if kind == "a long path" else b"POST /v1/predict HTTP/1.1\r\nContent-Type: application/json\r\n"
    with connected(calm) as greedy, contextlib.suppress(ConnectionError):
        greedy.sendall(begin)
        for _ in range(1000):  # 60 MB and more, unless the service ends it
            greedy.sendall(HEADS[kind])
        raise AssertionError("the service read everything")
    assert calm.memory() - before < 20_000_000
    with calm.client() as client:
        assert client.get("/healthz").status_code == 200
    assert "Traceback" not in calm.log


def test_what_is_refused_before_it_is_read_is_a_problem(calm: Server) -> None:
    for sent, status in ((b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431)):
        with connected(calm) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(ConnectionError):
                answer = read_to_end(connection)
        head, _, content = answer.partition(b"\r\n\r\n")
        if answer or status == 400:  # a client that is still sending may not get to read the answer
            problem = json.loads(content)
            assert head.startswith(f"HTTP/1.1 {status} ".encode()) and problem["status"] == status
            assert f"x-request-id: {problem['request_id']}".encode() in head
            assert b"application/problem+json" in head and f"content-length: {len(content)}".encode() in head


def test_a_client_that_sends_everything_before_it_reads_learns_that_it_was_too_much(calm: Server) -> None:
    content = json.dumps({"task": "sst", "texts": ["x" * 5_000_000]}).encode()
    asking = urllib.request.Request(  # urllib closes its connections, and sends all before it reads
        f"{calm.url}/v1/predict", content, {"Content-Type": "application/json"}
    )
    for _ in range(5):
        with pytest.raises(urllib.error.HTTPError, match="413") as refused:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asking, timeout=PATIENCE)
        assert "at most 4,000,000 bytes" in json.load(refused.value)["detail"]


def test_requests_that_come_all_at_once_are_answered_in_order_and_do_not_hold_up_others(calm: Server) -> None:
    count, one = 10_000, b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connected(calm) as hasty, calm.client() as client:
        sending = threading.Thread(target=hasty.sendall, args=(count * one,))
        sending.start()
        longest = 0.0
        for _ in range(20):
            start = time.monotonic()
            assert client.get("/healthz").status_code == 200
            longest = max(longest, time.monotonic() - start)
        found = b""
        while found.count(b"HTTP/1.1 404 ") < count:
            found += hasty.recv(1 << 20)
        sending.join(PATIENCE)
    assert longest < PATIENCE / 10


def test_a_client_that_reads_nothing_is_cut_off(impatient: Server) -> None:
    request = post("/v1/embed", {"texts": ["A quiet little triumph."] * 256})
    with connected(impatient) as deaf, pytest.raises(ConnectionError):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            deaf.sendall(request)
    with impatient.client() as client:
        assert client.get("/readyz").status_code == 200
    assert "Traceback" not in impatient.log


def test_a_keep_alive_connection_outlives_the_read_timeout_between_requests(impatient: Server) -> None:
    before = impatient.metric("palbert_requests_total", route="/v1/predict", status="200")
    with impatient.client() as client:
        for _ in range(3):
            assert client.post("/v1/predict", json=SHORT).status_code == 200
            time.sleep(0.7)  # longer than a head may take, shorter than uvicorn keeps connections
    assert impatient.metric("palbert_requests_total", route="/v1/predict", status="200") == before + 3


def test_idle_connections_do_not_stop_others(run: Path) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(run, most_files=300))
        client = stack.enter_context(server.client())
        idle = []
        for _ in range(12):
            idle += [stack.enter_context(connected(server)) for _ in range(50)]
            assert client.post("/v1/predict", json=SHORT).status_code == 200
        last = idle[-1]
        last.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert last.recv(1000).startswith(b"HTTP/1.1 200 ")
        client.post("/v1/predict", json=SHORT).raise_for_status()
    assert "Traceback" not in server.log


def test_where_all_connections_are_busy_new_ones_are_told_to_come_back(run: Path) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(run, most_files=100))  # at least 64 connections are tried
        busy = [stack.enter_context(open_request(server)) for _ in range(64)]
        for each in busy:
            assert b" 100 " in each.recv(100)
        with connected(server) as another:
            answer = read_to_end(another)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in answer
        head, _, content = answer.partition(b"\r\n\r\n")
        assert f"content-length: {len(content)}".encode() in head and json.loads(content)["status"] == 503
        busy.pop().close()
        wait_for(lambda: is_answered(server), "a free connection was not used")


def is_answered(server: Server) -> bool:
    try:
        with server.client() as client:
            return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_huge_request_does_not_keep_others_waiting(run: Path) -> None:
    finished: dict[str, float] = {}
    with serving(run) as server:

        def ask_much() -> None:
            with server.client() as client:
                client.post("/v1/predict", json={"task": "sst", "texts": ["a good film and " * 120] * 256})
                finished["much"] = time.monotonic()

        with server.client() as client:
            client.post("/v1/predict", json=SHORT)
            threads = [threading.Thread(target=ask_much) for _ in range(5)]
            for thread in threads:
                thread.start()
            wait_for(lambda: server.metric("palbert_queue_texts") > 256, "the huge requests did not wait")
            for _ in range(3):
                assert client.post("/v1/predict", json=SHORT).status_code == 200
            waiting = server.metric("palbert_queue_texts")
            finished["little"] = time.monotonic()
            for thread in threads:
                thread.join(PATIENCE)
    assert waiting > 0 and finished["little"] < finished["much"]


@contextlib.contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        yield connection


def post(path: str, body: object) -> bytes:
    """Write a request out."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def read_to_end(connection: socket.socket) -> bytes:
    """Read until the service closes the connection."""
    found = b""
    while part := connection.recv(65536):
        found += part
    return found
