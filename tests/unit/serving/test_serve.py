"""The verb serve: settings that exist, and packages that are needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import MissingExtraError, PalbertError
from palbert.serving.serve import NEEDED, serve
from palbert.serving.settings import Settings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Return a list that gets the settings of what would be served."""
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'palbert[serve]'")
    found: list[Settings] = []
    monkeypatch.setattr("palbert.serving.server.run_server", found.append)
    return found


def test_runs_and_settings_reach_the_server(started: list[Settings]) -> None:
    serve("a=runs/one", Path("runs/two"), port=9000, rate=5.0)
    assert started == [
        Settings(runs=(("a", Path("runs/one")), ("two", Path("runs/two"))), port=9000, rate=5.0),
    ]


@pytest.mark.parametrize(
    ("given", "says"), [({"prot": 1}, "Unknown setting 'prot'.*'port'"), ({"runs": ()}, "Unknown setting 'runs'")]
)
def test_a_setting_that_does_not_exist_is_an_error(started: list[Settings], given: Any, says: str) -> None:
    with pytest.raises(PalbertError, match=says):
        serve("runs/one", **given)
    assert started == []


@pytest.mark.parametrize("package", NEEDED)
def test_a_missing_package_is_named_with_what_installs_it(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"Serving needs {package}\. .*pip install 'palbert\[serve\]'"):
        serve("runs/one")
    assert started == []
