"""palbert audit: JSON lines on stdout or in a file, without anything that a terminal obeys."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.serving.audit_log import AuditEntry, AuditLog, default_log

Cli = Callable[..., Any]
NASTY = "\x1b[31m \x9b2J \u2028 \u202e \x00 \ud800 \t\n \u2066 ünï 🎸"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Write the log of a run, whose folder need not be there."""
    log = AuditLog(default_log(tmp_path / "demo"))
    for day, task, text in ((1, "sst", "one"), (2, "sts", ["two", "three"]), (3, "sst", NASTY)):
        time = 1767225600.0 + 86_400 * (day - 1)  # from 2026-01-01 on
        log.put([AuditEntry(time, f"r{day}", "website", "demo", "3f", task, text, {"prediction": NASTY}, 0.5)])
    log.close()
    return tmp_path / "demo"


def inputs(text: str) -> list[Any]:
    return [json.loads(line)["input"] for line in text.splitlines()]


def test_lines_are_json_and_nothing_in_them_is_obeyed(run: Path, cli: Cli) -> None:
    result = cli("audit", "log", run)
    assert result.code == 0 and result.err == ""
    assert inputs(result.out) == ["one", ["two", "three"], NASTY]
    assert (
        re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", result.out)
        is None
    )
    assert "ünï 🎸" in result.out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--since", "2026-01-02"], [["two", "three"], NASTY]),
        (["--until", "2026-01-02T00:00:00Z"], ["one"]),
        (["--since", "2026-01-01", "--until", "2026-01-03"], ["one", ["two", "three"]]),
        (["--task", "sst", "--client", "website"], ["one", NASTY]),
        (["--client", "nobody"], []),
        (["--text", "three"], [["two", "three"]]),
    ],
)
def test_entries_are_chosen(options: list[str], expected: list[Any], run: Path, cli: Cli) -> None:
    result = cli("audit", "log", run, *options)
    assert result.code == 0 and inputs(result.out) == expected


def test_a_log_elsewhere_is_read_with_or_without_the_run(run: Path, tmp_path: Path, cli: Cli) -> None:
    moved = default_log(run).rename(tmp_path / "moved.sqlite")
    assert len(cli("audit", "log", "--log", moved).out.splitlines()) == 3
    assert len(cli("audit", "log", run, "--log", moved).out.splitlines()) == 3


def test_a_file_is_written_once_for_its_owner(run: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "new" / "entries.jsonl"
    result = cli("audit", "log", run, "--out", out)
    assert result.code == 0 and result.out == "" and "3 rows written to" in result.err
    assert inputs(out.read_text("utf-8")) == ["one", ["two", "three"], NASTY]
    assert out.stat().st_mode & 0o077 == 0
    again = cli("audit", "log", run, "--out", out, "--task", "sts")
    assert again.code == 2 and "already exists" in again.err
    assert cli("audit", "log", run, "--out", out, "--task", "sts", "--force").code == 0
    assert inputs(out.read_text("utf-8")) == [["two", "three"]]


def test_a_file_that_appears_meanwhile_is_kept(
    run: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "entries.jsonl"
    monkeypatch.setattr(
        "palbert.serving.audit_reader.read_audit_log", lambda *_, **__: out.write_text("mine", "utf-8") and []
    )
    refused = cli("audit", "log", run, "--out", out)
    assert refused.code == 2 and f"{out}: already exists." in refused.err
    assert out.read_text("utf-8") == "mine"


def test_damage_leaves_no_partial_file(run: Path, tmp_path: Path, cli: Cli) -> None:
    connection = sqlite3.connect(default_log(run), isolation_level=None)
    connection.execute("UPDATE entries SET answer = '{' WHERE id = 3")
    connection.close()
    out = tmp_path / "entries.jsonl"
    out.write_text("old")
    result = cli("audit", "log", run, "--out", out, "--force")
    assert result.code == 2 and "row 3 is damaged" in result.err and out.read_text() == "old"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["no-such-run"], "no-such-run.audit.sqlite: no such audit log."),
        ([], "Expected a run folder, or a log with --log."),
        (["{run}", "--since", "yesterday"], "since: Expected a date or a time in ISO 8601"),
        (["{run}", "--until", "2026-02-30"], "until: Expected a date or a time in ISO 8601"),
        (["--log", __file__], "damaged, or not an audit log"),
    ],
)
def test_mistakes_are_reported(options: list[str], says: str, run: Path, cli: Cli) -> None:
    result = cli("audit", "log", *(option.replace("{run}", str(run)) for option in options))
    assert result.code == 2 and result.out == ""
    assert says in result.err.replace("\n", " ")
