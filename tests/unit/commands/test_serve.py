"""palbert serve: what is typed becomes settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'palbert[serve]'")

from palbert.commands.serve import serve
from palbert.serving.settings import Settings

Cli = Callable[..., Any]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Return a list that gets the settings of what would be served."""
    found: list[Settings] = []
    monkeypatch.setattr("palbert.serving.server.run_server", found.append)
    return found


def test_a_run_is_enough(cli: Cli, started: list[Settings]) -> None:
    result = cli("serve", "runs/demo")
    assert result.code == 0, result.err
    assert started == [Settings(runs=(("demo", Path("runs/demo")),))]


def test_several_runs_with_names_and_every_option(cli: Cli, started: list[Settings]) -> None:
    options = (
        "--host 0.0.0.0 --port 0 --keys keys.json --checkpoint last --device cpu --precision int8 "
        "--workers 2 --watch 5 --proxies 10.0.0.1 --rate 50 --burst 100 --max-items 10 --max-characters 100 "
        "--max-body 1000 --max-explained 3 --queue 20 --read-timeout 9 --wait-ms 4 --drain 7 --audit hashes "
        "--audit-log all.sqlite --audit-days 30 --audit-full refuse"
    )
    result = cli("serve", "a=runs/one", "b=runs/two", *options.split())
    assert result.code == 0, result.err
    assert started == [
        Settings(
            runs=(("a", Path("runs/one")), ("b", Path("runs/two"))),
            host="0.0.0.0",
            port=0,
            keys=Path("keys.json"),
            checkpoint="last",
            device="cpu",
            precision="int8",
            workers=2,
            watch=5.0,
            proxies="10.0.0.1",
            rate=50.0,
            burst=100.0,
            max_items=10,
            max_characters=100,
            max_body=1000,
            max_explained=3,
            queue=20,
            read_timeout=9.0,
            wait=0.004,
            drain=7.0,
            audit="hashes",
            audit_log=Path("all.sqlite"),
            audit_days=30,
            audit_full="refuse",
        )
    ]


def test_options_have_the_defaults_of_the_settings() -> None:
    options = {name: parameter.default for name, parameter in inspect.signature(serve).parameters.items()}
    assert options.pop("runs") is inspect.Parameter.empty
    options["wait"] = options.pop("wait_ms") / 1000
    defaults = {field.name: field.default for field in fields(Settings) if field.name != "runs"}
    assert {name: defaults[name] for name in options} == options
    assert defaults.keys() - options.keys() == {"explain_queue"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["runs/demo", "--host", "0.0.0.0"], "Without API keys, the service listens on this machine only"),
        (["runs/a", "other/a"], "Two runs have the name 'a'"),
        (["runs/demo", "--max-items", "0"], "--max-items"),
        (["runs/demo", "--audit", "everything"], "--audit"),
        (["runs/demo", "--prot", "1"], "--port"),
    ],
)
def test_mistakes_are_errors_and_nothing_is_served(
    cli: Cli, started: list[Settings], given: list[str], says: str
) -> None:
    result = cli("serve", *given)
    assert result.code == 2 and says in result.err and "Traceback" not in result.err
    assert started == []


def test_without_a_run_it_shows_how_to_use_it(cli: Cli, started: list[Settings]) -> None:
    for given in ((), ("--help",)):
        shown = cli("serve", *given)
        assert "palbert serve runs/demo" in shown.out and "--max-items" in shown.out
    assert started == []


def test_keys_are_a_command_of_their_own(cli: Cli, started: list[Settings], tmp_path: Path) -> None:
    result = cli("serve", "key", "add", "website", "--keys", tmp_path / "keys.json")
    assert result.code == 0 and result.out.startswith("pal_") and started == []
    assert "website" in cli("serve", "key", "list", "--keys", tmp_path / "keys.json").out


def test_a_run_that_is_not_there_is_an_error(cli: Cli, tmp_path: Path) -> None:
    result = cli("serve", tmp_path / "absent", "--port", "0", "--audit", "off")
    assert result.code == 2 and "no such folder" in result.err and "Traceback" not in result.err
