"""Server: from settings to a service; sockets, shares of workers and audit logs."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'palbert[serve]'")

from starlette.testclient import TestClient

from palbert.errors import DataError, PalbertError
from palbert.serving import server
from palbert.serving.app import build_app
from palbert.serving.audit_log import default_log
from palbert.serving.audit_reader import read_audit_log
from palbert.serving.settings import Settings

BODY = {"task": "sst", "texts": ["good"]}


def settings_of(*runs: tuple[str, Path], **given: Any) -> Settings:
    return Settings(runs=runs, device="cpu", **{"audit": "off", **given})


def test_a_service_is_built_from_settings_and_answers(served_run: Path, passes: list[int]) -> None:
    service = server.build_service(settings_of(("a", served_run), ("b", served_run)))
    assert len(passes) == 2 * 4  # each task of each run has answered once, so that no client pays for the first time
    with TestClient(build_app(service), base_url="http://127.0.0.1") as client:
        for run in ("a", "b"):
            assert client.post("/v1/predict", json=BODY | {"run": run}).json()["run"]["name"] == run
        assert [run["default"] for run in client.get("/v1/tasks").json()["runs"]] == [True, False]


def test_a_wrong_file_of_keys_is_found_before_models_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "open_model", pytest.fail)
    with pytest.raises(DataError, match="no such file of API keys"):
        server.build_service(settings_of(("a", tmp_path), keys=tmp_path / "keys.json"))


def test_each_run_has_a_log_next_to_its_folder(served_copy: Path) -> None:
    service = server.build_service(settings_of(("demo", served_copy), audit="texts"))
    with TestClient(build_app(service), base_url="http://127.0.0.1") as client:
        assert client.post("/v1/predict", json=BODY).status_code == 200
    assert [row["input"] for row in read_audit_log(default_log(served_copy))] == ["good"]


def test_runs_may_share_a_log(served_copy: Path, tmp_path: Path) -> None:
    path = tmp_path / "all.sqlite"
    runs = (("a", served_copy), ("b", served_copy))
    service = server.build_service(settings_of(*runs, audit="hashes", audit_log=path))
    assert service.audit["a"] is service.audit["b"]
    with TestClient(build_app(service), base_url="http://127.0.0.1") as client:
        for run in ("a", "b", "a"):
            client.post("/v1/predict", json=BODY | {"run": run})
    rows = list(read_audit_log(path))
    assert [row["run"] for row in rows] == ["a", "b", "a"] and not any("good" in str(row) for row in rows)
    assert not default_log(served_copy).exists()


def test_a_log_can_be_left_out(served_copy: Path) -> None:
    assert server.build_service(settings_of(("demo", served_copy))).audit == {}
    assert not default_log(served_copy).exists()


@pytest.mark.parametrize(
    ("given", "rate", "burst"),
    [
        ({"rate": 4.0}, 4.0, 40),
        ({"rate": 4.0, "burst": 7.0}, 4.0, 7),
        ({"rate": 4.0, "workers": 2}, 2.0, 20),
        ({"rate": 0.1, "workers": 4}, 0.025, 1),
    ],
)
def test_workers_share_the_rate(given: dict[str, Any], rate: float, burst: int) -> None:
    limits = server._limits(settings_of(("a", Path("a")), **given))
    assert limits is not None and (limits.rate, limits.burst) == (pytest.approx(rate), burst)


def test_without_a_rate_there_are_no_limits() -> None:
    assert server._limits(settings_of(("a", Path("a")))) is None


def test_any_free_port_can_be_taken() -> None:
    with server._listening(settings_of(("a", Path("a")), port=0)) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1" and port > 0 and server._address(listener) == f"http://127.0.0.1:{port}"
        with socket.create_connection((host, port), timeout=10):
            pass
    assert listener.fileno() == -1


def test_a_port_that_is_taken_is_an_error_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(PalbertError, match=rf"Cannot listen on 127.0.0.1, port {port}: .*--port"),
            server._listening(settings_of(("a", Path("a")), port=port)),
        ):
            pass


@pytest.mark.parametrize("port", [70_000, -1])
def test_a_port_that_does_not_exist_is_an_error(port: int) -> None:
    with (
        pytest.raises(PalbertError, match="Cannot listen"),
        server._listening(settings_of(("a", Path("a")), port=port)),
    ):
        pass


def test_errors_while_serving_are_not_taken_for_a_busy_port() -> None:
    with (
        pytest.raises(OSError, match="disk full"),
        server._listening(settings_of(("a", Path("a")), port=0)),
    ):
        raise OSError("disk full")


def test_the_start_says_where_it_listens_for_whom_and_what_it_keeps(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(logging.INFO):
        settings = settings_of(("demo", tmp_path / "demo"), audit="hashes")
        server._say_ready(settings, "http://127.0.0.1:8000", 1.0)
    assert "Serving demo at http://127.0.0.1:8000" in caplog.text and "only this machine may ask" in caplog.text
    assert f"Hashes of texts, and all answers are logged in {default_log(tmp_path / 'demo')}" in caplog.text
