"""palbert serve key: secrets on stdout, once; names and mistakes on the terminal."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from palbert.commands.serve_keys import key_app
from palbert.errors import PalbertError
from palbert.serving.keys import Keys, read_keys


def run(*arguments: object) -> str:
    """Run a command; return what it printed on stdout."""
    result = CliRunner().invoke(key_app, [str(argument) for argument in arguments])
    if isinstance(result.exception, PalbertError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_secret_alone_is_on_stdout(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        [secret] = run("add", "website", "--keys", tmp_path / "keys.json").splitlines()
    assert Keys(tmp_path / "keys.json").identify(secret) == "website"
    assert "Key 'website' added to" in caplog.text and secret not in caplog.text


def test_keys_are_listed_without_secrets(tmp_path: Path) -> None:
    secret = run("add", "website", "--keys", tmp_path / "keys.json").strip()
    run("add", "trial", "--days", "7", "--keys", tmp_path / "keys.json")
    header, *lines = run("list", "--keys", tmp_path / "keys.json").splitlines()
    stored = read_keys(tmp_path / "keys.json")
    assert header.split() == ["name", "created", "expires"]
    assert [line.split() for line in lines] == [[key.name, key.created, key.expires or "never"] for key in stored]
    assert stored[1].expires is not None and secret not in "".join(lines)


def test_a_key_is_removed(tmp_path: Path) -> None:
    run("add", "website", "--keys", tmp_path / "keys.json")
    assert run("remove", "website", "--keys", tmp_path / "keys.json") == ""
    assert read_keys(tmp_path / "keys.json") == []
    with pytest.raises(PalbertError, match="no key named"):
        run("remove", "website", "--keys", tmp_path / "keys.json")


def test_the_file_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALBERT_KEYS", str(tmp_path / "mine.json"))
    run("add", "website")
    assert [key.name for key in read_keys(tmp_path / "mine.json")] == ["website"]
    assert "website" in run("list")


@pytest.mark.parametrize("command", ["add", "list", "remove"])
def test_the_help_shows_an_example(command: str) -> None:
    assert f"palbert serve key {command}" in run(command, "--help").partition("Example")[2]


def test_a_key_of_no_days_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(key_app, ["add", "website", "--days", "0", "--keys", str(tmp_path / "keys.json")])
    assert result.exit_code == 2 and not (tmp_path / "keys.json").exists()
