"""Settings: runs by name, limits that make sense, and no service for others without keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.errors import PalbertError
from palbert.serving.settings import Settings, name_runs

RUNS = (("demo", Path("runs/demo")),)


def test_defaults_listen_on_this_machine_only_and_without_keys() -> None:
    settings = Settings(runs=RUNS)
    assert (settings.host, settings.port, settings.is_open) == ("127.0.0.1", 8000, True)
    assert (settings.max_items, settings.max_characters, settings.max_body) == (256, 20_000, 4_000_000)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", "127.0.0.1.example.com", ""])
def test_without_keys_others_cannot_be_let_in(host: str) -> None:
    with pytest.raises(PalbertError, match=r"Without API keys, .* palbert serve key add"):
        Settings(runs=RUNS, host=host)
    assert not Settings(runs=RUNS, host=host, keys=Path("keys.json")).is_open


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_names_of_this_machine_need_no_keys(host: str) -> None:
    assert Settings(runs=RUNS, host=host).is_open


def test_a_service_has_runs_with_names_of_their_own() -> None:
    with pytest.raises(PalbertError, match="No run to serve"):
        Settings(runs=())
    with pytest.raises(PalbertError, match="Two runs have the name 'demo'"):
        Settings(runs=(*RUNS, ("demo", Path("other"))))


@pytest.mark.parametrize(
    "given",
    [
        *({name: 0} for name in ("max_items", "max_characters", "max_body", "max_explained", "queue", "workers")),
        {"explain_queue": 0},
        *({name: -1} for name in ("wait", "rate", "burst", "watch")),
        *({name: value} for name in ("read_timeout", "drain") for value in (0, -1, float("nan"))),
    ],
    ids=str,
)
def test_limits_that_would_let_nothing_through_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(PalbertError):
        Settings(runs=RUNS, **given)


def test_runs_are_named_or_have_the_name_of_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd=name").mkdir()
    assert name_runs(["runs/demo", "a=runs/one", Path("x/y/"), "odd=name", "b=runs/c=d"]) == (
        ("demo", Path("runs/demo")),
        ("a", Path("runs/one")),
        ("y", Path("x/y")),
        ("odd=name", Path("odd=name")),
        ("b", Path("runs/c=d")),
    )
    assert name_runs(["."]) == ((tmp_path.name, Path()),)


def test_runs_of_the_hub_have_the_name_of_their_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [name for name, _ in name_runs(["owner/a", "owner/b@v1", "hf:owner/c", "d=owner/e"])] == ["a", "b", "c", "d"]
    (tmp_path / "f@g").mkdir()
    assert name_runs(["f@g"]) == (("f@g", Path("f@g")),)


@pytest.mark.parametrize("run", ["=runs/demo", "a=", "a/b=runs/demo", "/"])
def test_a_run_without_a_proper_name_or_folder_is_refused(run: str) -> None:
    with pytest.raises(PalbertError, match="Expected a run folder or name=folder"):
        name_runs([run])
