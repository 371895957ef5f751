"""The verb serve: settings that exist, and packages that are needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hub import Hub

import palbert
from palbert.errors import MissingExtraError, PalbertError
from palbert.serving.keys import add_key, default_path
from palbert.serving.model import open_model
from palbert.serving.runs import describe
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


@pytest.fixture
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that `palbert serve key add` has made for this user."""
    monkeypatch.delenv("PALBERT_KEYS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    add_key(default_path(), "website")
    return default_path()


def test_a_service_for_other_machines_uses_the_keys_of_the_user(started: list[Settings], own_keys: Path) -> None:
    serve("runs/one", host="0.0.0.0")
    serve("runs/one")
    assert [each.keys for each in started] == [own_keys, None]


def test_without_keys_there_is_no_service_for_other_machines(started: list[Settings], own_keys: Path) -> None:
    own_keys.unlink()
    with pytest.raises(PalbertError, match=r"listens on this machine only.*palbert serve key add NAME"):
        serve("runs/one", host="0.0.0.0")
    assert started == []


def test_keys_that_are_given_come_before_those_of_the_environment(
    started: list[Settings], own_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_KEYS", "of-the-environment.json")
    serve("runs/one")
    serve("runs/one", keys="given.json")
    assert [each.keys for each in started] == [Path("of-the-environment.json"), Path("given.json")]


@pytest.mark.parametrize("package", NEEDED)
def test_a_missing_package_is_named_with_what_installs_it(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"Serving needs {package}\. .*pip install 'palbert\[serve\]'"):
        serve("runs/one")
    assert started == []


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of huggingface_hub, as it calls httpx
def test_a_run_of_the_hub_is_served_from_a_copy_next_to_which_its_log_is(
    started: list[Settings], trained: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    palbert.push(trained, "owner/tiny", yes=True)
    monkeypatch.chdir(tmp_path)
    serve("owner/tiny", f"old=owner/tiny@{hub.repositories['owner/tiny'].head}", f"here={trained}")
    copy = Path("runs") / f"owner--tiny-{hub.repositories['owner/tiny'].head[:8]}"
    assert started[0].runs == (("tiny", copy), ("old", copy), ("here", trained))
    served = open_model("tiny", copy, checkpoint=None, device="cpu", precision="fp32", trust=False)
    assert served.tasks.keys() == palbert.load(trained).tasks.keys()
    assert describe(served, is_default=True)["tasks"]["sst"]["score"] is not None
