"""The guide of the service: its requests get the answers that it shows, and its tables are those of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from tests.served import ask, curl_commands, serving, train_tiny_demo

from palbert.serving.app import build_app
from palbert.serving.engine import Engine
from palbert.serving.gateway import GUARDED
from palbert.serving.keys import add_key
from palbert.serving.metrics import Metrics
from palbert.serving.openapi import PROBLEMS
from palbert.serving.runs import Runs
from palbert.serving.service import Service
from palbert.serving.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "serving.md").read_text("utf-8")
COMMANDS = curl_commands(PAGE)
SHOWN = dict(re.findall(r"```sh\n(curl .*?)\n```\n\n```json\n(.*?)```", PAGE, re.DOTALL))
SETTINGS = Settings(runs=(("mine", Path("mine")),))


@pytest.fixture(scope="module")
def run(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny_demo(tiny_encoder, tmp_path_factory.mktemp("guide") / "runs" / "demo")


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    with serving([f"demo={run}", f"next={run}"], run.parents[1]) as found:
        yield found


def section(title: str) -> str:
    """Return the part of the page below a heading."""
    return re.split(r"\n## ", PAGE.partition(f"\n## {title}\n")[2])[0]


def shape(value: Any) -> Any:
    """Return what two answers to the same question have in common: names and kinds, not numbers and texts."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items() if name not in ("prediction", "abstained")}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def service() -> Service:
    return Service(SETTINGS, Runs([]), Engine(queue=1, wait=0.0), Metrics())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_request_of_the_page_is_answered(command: str, address: str) -> None:
    response = ask(command, address, "pal_any")
    assert response.status_code == 200, response.text
    if command in SHOWN:
        assert shape(response.json()) == shape(json.loads(SHOWN[command]))


def test_the_page_shows_answers_of_every_route_that_takes_texts() -> None:
    asked = {re.findall(r"/v1/\w+", command)[0] for command in SHOWN}
    assert asked == {"/v1/predict", "/v1/embed", "/v1/embeddings", "/v1/explain"}


def test_every_result_that_is_shown_has_the_fields_of_the_service(address: str) -> None:
    command = next(command for command in SHOWN if '"all"' in command)
    found, shown = ask(command, address).json()["results"], json.loads(SHOWN[command])["results"]
    assert [shape(result) for result in found] == [shape(result) for result in shown]
    assert found[1] == shown[1]


def test_both_headers_of_the_page_carry_a_key(run: Path, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "website")
    commands = [command for command in COMMANDS if "$KEY" in command]
    assert len(commands) == 2
    with serving([str(run), "--keys", str(tmp_path / "keys.json"), "--audit", "off"], tmp_path) as address:
        assert [ask(command, address, key).status_code for command in commands] == [200, 200]
        assert [ask(command, address, "pal_wrong").status_code for command in commands] == [401, 401]
    assert re.fullmatch(r"pal_.{43}", key)


def test_the_limits_are_the_defaults() -> None:
    rows = re.findall(r"^\| `--([\w-]+)` \| ([\d,]+) \|", section("Limits"), re.MULTILINE)
    shown = {name.replace("-", "_"): float(number.replace(",", "")) for name, number in rows}
    assert shown.pop("wait_ms") == SETTINGS.wait * 1000
    assert len(shown) > 5 and shown == {name: getattr(SETTINGS, name) for name in shown}


def test_the_settings_without_an_option_are_named_with_their_defaults() -> None:
    text = " ".join(section("From Python").split())
    assert f"`explain_queue` ({SETTINGS.explain_queue} texts" in text
    assert {"explain_queue", "wait", "audit"} <= {field.name for field in fields(Settings)}


def test_the_table_of_routes_is_complete() -> None:
    application = build_app(service()).app
    assert isinstance(application, Starlette)
    paths = {route.path for route in application.routes if isinstance(route, Route) and "GET" in (route.methods or ())}
    rows = re.findall(r"^\| (`GET.*?`) \|.*\| (yes|no) \|$", section("What else it tells"), re.MULTILINE)
    shown = {path: key for names, key in rows for path in re.findall(r"GET (\S+?)`", names)}
    found = {path.replace("{run}", "RUN") for path in paths if not path.startswith("/page.")}
    assert set(shown) == found
    assert {path for path, key in shown.items() if key == "yes"} == {path for path in found if path.startswith(GUARDED)}


def test_the_table_of_errors_has_every_status() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", section("Errors"), re.MULTILINE)
    shown = {int(status) for row in rows for status in row.split(", ")}
    assert shown == {*PROBLEMS, 405, 500}


def test_the_table_of_metrics_is_complete() -> None:
    names = re.findall(r"`(palbert_\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section("Metrics"), re.MULTILINE)))
    page = Metrics().page().decode()
    found = {name for name, _ in re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE)}
    assert set(names) == {name for name in found if not name.endswith("_created")}
