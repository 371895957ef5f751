"""API keys: who a secret belongs to, a file that changes, and two processes that write it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import DataError, PalbertError
from palbert.serving.keys import Keys, add_key, default_path, read_keys, remove_key

posix = pytest.mark.skipif(os.name != "posix", reason="needs modes and locks of POSIX")


ENTRY = {"name": "a", "sha256": "0" * 64, "created": "2026-01-01T00:00:00+00:00"}


def entries(*keys: dict[str, Any]) -> str:
    return json.dumps({"format": 1, "keys": keys})


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings" / "keys.json"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_secret_is_known_by_its_name_and_kept_nowhere(path: Path) -> None:
    secrets = {name: add_key(path, name) for name in ("website", "app@example.org")}
    keys = Keys(path)
    assert {keys.identify(secret): secret for secret in secrets.values()} == secrets
    assert all(secret.startswith("pal_") and len(secret) == 47 for secret in secrets.values())
    text = path.read_text("utf-8")
    assert not any(secret in text or secret[4:] in text for secret in secrets.values())
    assert [key["sha256"] for key in json.loads(text)["keys"]] == [
        hashlib.sha256(secret.encode()).hexdigest() for secret in secrets.values()
    ]


def test_nothing_else_is_known(path: Path) -> None:
    secret = add_key(path, "website")
    keys = Keys(path)
    [stored] = read_keys(path)
    others = ["", "pal_", secret[:-1], secret + " ", secret.lower(), stored.sha256, "website", "\ud800", "x" * 10**6]
    assert [keys.identify(other) for other in others] == [None] * len(others)


def test_a_key_expires(path: Path) -> None:
    secret = add_key(path, "trial", days=30)
    now = Clock()
    keys = Keys(path, now=now)
    now.time = time.time() + 30 * 86_400 - 60
    assert keys.identify(secret) == "trial"
    now.time += 120
    assert keys.identify(secret) is None


def test_added_and_removed_keys_are_noticed_after_a_second(path: Path, clock: Clock) -> None:
    first = add_key(path, "first")
    keys = Keys(path, clock=clock)
    second = add_key(path, "second")
    remove_key(path, "first")
    clock.time += 0.9
    assert (keys.identify(first), keys.identify(second)) == ("first", None)
    clock.time += 0.2
    assert (keys.identify(first), keys.identify(second)) == (None, "second")


def test_the_file_is_looked_at_once_a_second(path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = add_key(path, "website")
    keys = Keys(path, clock=clock)
    looks: list[Path] = []
    original = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **settings: looks.append(self) or original(self, **settings))
    for _ in range(100):
        clock.time += 0.05
        assert keys.identify(secret) == "website"
    assert 4 <= len(looks) <= 6


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"format": 2, "keys": []}',
        '{"format": 1, "keys": {}}',
        '{"format": 1, "keys": ["website"]}',
        entries(ENTRY | {"name": "a b"}),
        entries(ENTRY | {"sha256": "12"}),
        entries(ENTRY | {"created": None}),
        entries(ENTRY | {"created": "yesterday"}),
        entries(ENTRY | {"expires": 20260101}),
        entries(ENTRY, ENTRY | {"name": "b"}),
        entries(ENTRY, ENTRY | {"sha256": "1" * 64}),
    ],
)
def test_a_damaged_file_is_an_error_at_first_and_keeps_the_former_keys_later(
    damage: str, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret = add_key(path, "website")
    keys = Keys(path, clock=clock)
    path.write_text(damage)
    with pytest.raises(DataError, match=r"keys.json: .*Repair the file"):
        Keys(path)
    for _ in range(3):
        clock.time += 2
        assert keys.identify(secret) == "website"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "1 keys read before stay valid" in caplog.text
    path.unlink()
    other = add_key(path, "other")
    clock.time += 2
    assert (keys.identify(secret), keys.identify(other)) == (None, "other")


def test_a_file_that_vanishes_keeps_the_former_keys(path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    secret = add_key(path, "website")
    keys = Keys(path, clock=clock)
    path.unlink()
    clock.time += 2
    assert keys.identify(secret) == "website"
    assert "no such file of API keys" in caplog.text
    with pytest.raises(DataError, match="palbert serve key add"):
        Keys(path)


def test_a_file_without_keys_lets_nobody_in(path: Path, clock: Clock) -> None:
    secret = add_key(path, "website")
    keys = Keys(path, clock=clock)
    remove_key(path, "website")
    clock.time += 2
    assert keys.identify(secret) is None and len(keys) == 0


@posix
def test_the_file_is_readable_by_its_owner_only(path: Path) -> None:
    for name in ("a", "b"):
        add_key(path, name)
        assert path.stat().st_mode & 0o777 == 0o600
    remove_key(path, "a")
    assert path.stat().st_mode & 0o777 == 0o600


@posix
def test_a_file_that_others_may_read_is_a_warning_and_one_that_all_may_write_an_error(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret = add_key(path, "website")
    path.chmod(0o644)
    keys = Keys(path, clock=clock)
    assert "other users may read" in caplog.text and "chmod 600" in caplog.text
    path.chmod(0o666)
    with pytest.raises(DataError, match="everybody may write"):
        Keys(path)
    clock.time += 2
    assert keys.identify(secret) == "website"
    assert caplog.records[-1].levelname == "ERROR"


@posix
def test_a_link_to_the_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    add_key(path, "a")
    link = tmp_path / "link.json"
    link.symlink_to(path)
    add_key(link, "b")
    assert link.is_symlink() and [key.name for key in read_keys(path)] == ["a", "b"]


@posix
def test_processes_that_add_keys_at_once_lose_none(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from palbert.serving.keys import add_key
for number in range(15):
    print(add_key(Path(sys.argv[1]), f"{sys.argv[2]}-{number}"))
"""
    started: list[subprocess.Popen[str]] = [
        subprocess.Popen([sys.executable, "-c", code, path, name], stdout=subprocess.PIPE, text=True) for name in "abc"
    ]
    printed = [process.communicate(timeout=60)[0].split() for process in started]
    keys = Keys(path)
    expected: list[Any] = [[f"{name}-{number}" for number in range(15)] for name in "abc"]
    assert [[keys.identify(secret) for secret in secrets] for secrets in printed] == expected
    assert sorted(each.name for each in path.parent.iterdir()) == ["keys.json", "keys.json.lock"]


@pytest.mark.parametrize("name", ["", "a b", "-a", "a" * 65, "a\n", "ü", "../a", "a\x1b[0m"])
def test_a_name_that_would_be_trouble_is_refused(name: str, path: Path) -> None:
    with pytest.raises(PalbertError, match="letters, digits"):
        add_key(path, name)
    assert not path.exists()


def test_a_name_is_used_once(path: Path) -> None:
    add_key(path, "website")
    with pytest.raises(PalbertError, match=r"there is a key named 'website'.*remove"):
        add_key(path, "website")
    with pytest.raises(PalbertError, match=r"no key named 'web-site'.*Did you mean 'website'"):
        remove_key(path, "web-site")
    with pytest.raises(PalbertError, match="cannot expire"):
        add_key(path, "late", days=10**9)
    assert [key.name for key in read_keys(path)] == ["website"]


def test_the_default_path_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PALBERT_KEYS", str(tmp_path / "mine.json"))
    assert default_path() == tmp_path / "mine.json"
    monkeypatch.delenv("PALBERT_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "palbert" / "keys.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert default_path() == Path.home() / ".config" / "palbert" / "keys.json"


def test_no_log_shows_a_secret(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        secret = add_key(path, "website")
        Keys(path).identify(secret)
    assert secret not in caplog.text
