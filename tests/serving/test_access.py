"""Who may ask: keys that come and go, names of hosts, addresses, and rates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.serving.processes import PATIENCE, Server, serving, wait_for

from palbert.serving.audit_log import default_log
from palbert.serving.audit_reader import read_audit_log

ASKED = {"task": "sst", "texts": ["A quiet little triumph."]}


def key(*arguments: object) -> str:
    """Run `palbert serve key`; return what it prints."""
    command = [sys.executable, "-m", "palbert", "serve", "key", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()


def status(server: Server, secret: str, path: str = "/v1/predict") -> int:
    with server.client(headers={"Authorization": f"Bearer {secret}"} if secret else {}) as client:
        found = client.post(path, json=ASKED) if path == "/v1/predict" else client.get(path)
        return found.status_code


def test_keys_are_added_and_removed_while_the_service_runs(run: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    first = key("add", "website", "--keys", keys)
    assert first.startswith("pal_") and first not in keys.read_text()
    with serving(run, "--keys", keys) as server:
        assert status(server, first) == 200 and status(server, "") == 401 and status(server, "pal_wrong") == 401
        with server.client(headers={"X-API-Key": first}) as client:
            assert client.get("/v1/tasks").status_code == 200
        for path in ("/metrics", "/v1/tasks", "/v1%2ftasks", "/report/mine"):
            assert status(server, "", path) == 401
        for path in ("/healthz", "/readyz", "/", "/docs", "/openapi.json"):
            assert status(server, "", path) == 200
        second = key("add", "app", "--keys", keys)
        wait_for(lambda: status(server, second) == 200, "the new key is not known")
        key("remove", "website", "--keys", keys)
        wait_for(lambda: status(server, first) == 401, "the removed key is still known")
        keys.write_text("{")
        wait_for(lambda: status(server, second) == 200 and "stay valid" in server.log, "the damage was not logged")
        assert status(server, second) == 200
        assert server.stop() == 0
    entries = list(read_audit_log(default_log(run)))
    assert {entry["client"] for entry in entries} == {"website", "app"}
    assert first not in server.log and second not in server.log


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_without_keys_only_this_machine_is_listened_to(run: Path, host: str) -> None:
    nobody = {"XDG_CONFIG_HOME": str(run.parent), "PALBERT_KEYS": ""}  # whoever runs the tests may have keys
    with Server(run, "--host", host, environment=nobody) as server:
        assert server.process.wait(PATIENCE) == 2
        server.wait_for_log("Add one first: palbert serve key add NAME")
    assert "Serving" not in server.log and "Traceback" not in server.log


def test_a_page_of_another_site_cannot_ask_through_its_own_name(run: Path) -> None:
    with serving(run) as server, server.client() as client:
        for host in ("rebound.example", "rebound.example:80", "127.0.0.1.rebound.example", "localhost.", ""):
            for path in ("/", "/v1/tasks", "/metrics", "/healthz"):
                refused = client.get(path, headers={"Host": host})
                assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
        for host in ("localhost", f"127.0.0.1:{server.port}", f"[::1]:{server.port}", "LocalHost:1"):
            assert client.get("/v1/tasks", headers={"Host": host}).status_code == 200
        simple = client.post("/v1/predict", content=b"{}", headers={"Content-Type": "text/plain"})
        preflight = client.options("/v1/predict", headers={"Origin": "http://rebound.example"})
    assert simple.status_code == 415  # what a page may send without asking first
    assert preflight.status_code == 405 and "access-control-allow-origin" not in preflight.headers


def test_each_key_has_a_rate_of_its_own(run: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    secrets = [key("add", name, "--keys", keys) for name in ("greedy", "modest")]
    with serving(run, "--keys", keys, "--rate", 0.01, "--burst", 20) as server:

        def ask(secret: str, texts: int) -> httpx.Response:
            with server.client(headers={"Authorization": f"Bearer {secret}"}) as client:
                return client.post("/v1/predict", json={"task": "sst", "texts": ["A film."] * texts})

        assert [ask(secrets[0], 10).status_code for _ in range(2)] == [200, 200]
        refused = ask(secrets[0], 10)
        assert refused.status_code == 429 and int(refused.headers["Retry-After"]) > 100
        assert ask(secrets[1], 20).status_code == 200
        assert ask(secrets[1], 21).status_code == 422  # would never pass


def test_a_port_that_is_taken_is_an_error_that_says_so(run: Path) -> None:
    with serving(run) as server, Server(run, port=server.port) as other:
        assert other.process.wait(PATIENCE) == 2
        assert f"Cannot listen on 127.0.0.1, port {server.port}" in other.wait_for_log("error:")
