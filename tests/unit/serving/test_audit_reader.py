"""Reading the audit log: filters, a log that is being written, copies, and damage."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import DataError, PalbertError
from palbert.serving import audit_reader
from palbert.serving.audit_log import AuditEntry, AuditLog
from palbert.serving.audit_reader import read_audit_log

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
PAIR = ("A man plays a guitar.", "Someone makes music.")
Ids = list[str]


def ids(path: Path, *arguments: Any, **settings: Any) -> Ids:
    return [entry["request_id"] for entry in read_audit_log(path, *arguments, **settings)]


def entry(name: str, hours: float = 0.0, **changes: Any) -> AuditEntry:
    time = (NOON + timedelta(hours=hours)).timestamp()
    return AuditEntry(time, name, "website", "demo", "3f", "sst", f"text {name}", {"prediction": "a"}, 0.5)._replace(
        **changes
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def to_log(*entries: AuditEntry, **settings: Any) -> Path:
        log = AuditLog(tmp_path / "log.sqlite", **settings)
        log.put(entries)
        log.close()
        return log.path

    return to_log


def test_entries_are_in_order_of_their_time(write: Callable[..., Path]) -> None:
    path = write(entry("c", 2), entry("a", -1), entry("b1"), entry("b2"))
    assert ids(path) == ["a", "b1", "b2", "c"]
    assert [row["time"] for row in read_audit_log(path)][1] == "2026-01-31T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, "abcd"),
        ("2026-01-31", None, "bcd"),
        ("2026-01-31", "2026-02-01", "bc"),
        ("2026-01-31T12:00", "2026-01-31T14:00:00Z", "b"),
        ("2026-01-31T15:00+02:00", None, "cd"),
        (NOON, NOON + timedelta(hours=2), "b"),
        (NOON.replace(tzinfo=None) + timedelta(microseconds=1), "2030-01-01", "cd"),
        ("2026-02-01", "2026-01-01", ""),
    ],
)
def test_times_bound_what_is_read(since: Any, until: Any, expected: str, write: Callable[..., Path]) -> None:
    path = write(entry("a", -24), entry("b"), entry("c", 2), entry("d", 24))
    assert ids(path, since, until) == list(expected)


def test_tasks_clients_and_texts_are_found(write: Callable[..., Path]) -> None:
    path = write(
        entry("a"), entry("b", task="sts", input=PAIR), entry("c", client="o'neill"), entry("d", input='a "b" \ud800')
    )
    assert ids(path, task="sts") == ["b"]
    assert ids(path, client="o'neill") == ["c"]
    assert ids(path, task="sst", client="website") == ["a", "d"]
    assert ids(path, text=PAIR[1]) == ["b"] and ids(path, text='a "b" \ud800') == ["d"]
    assert ids(path, text="text") == ids(path, task="x' OR 1 --") == []


def test_texts_are_found_by_their_hash(write: Callable[..., Path]) -> None:
    path = write(entry("a"), entry("b", input=PAIR), keep="hashes")
    assert ids(path, text="text a") == ["a"] and ids(path, text=PAIR[0]) == ["b"]
    first, _ = read_audit_log(path)
    assert "input" not in first and ids(path, text=first["input_hmac"]) == ["a"]  # which nobody has as a text


def test_a_log_can_change_from_texts_to_hashes(write: Callable[..., Path]) -> None:
    write(entry("a"))
    path = write(entry("b"), keep="hashes")
    assert [sorted(row.keys() & {"input", "input_hmac"}) for row in read_audit_log(path)] == [["input"], ["input_hmac"]]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_all_entries_are_read_whatever_their_number(
    count: int, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_reader, "SLICE", 3)
    path = write(*(entry(str(number), hours=number // 4) for number in range(count)))
    assert ids(path) == [str(number) for number in range(count)]


def test_a_log_is_read_while_it_is_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.sqlite")
    log.put([entry(str(number)) for number in range(1_200)])
    assert log.flush(20)
    reading = read_audit_log(log.path)
    found = [next(reading)["request_id"] for _ in range(3)]
    log.put([entry(f"later {number}", hours=1) for number in range(1_200)])
    assert log.flush(20)
    found += [row["request_id"] for row in reading]
    assert found == [str(number) for number in range(1_200)]
    assert len(ids(log.path)) == 2_400
    log.close()


def test_a_copy_that_cannot_be_written_is_read(write: Callable[..., Path]) -> None:
    path = write(entry("a"), entry("b"))
    code = """
import os, sys, urllib.parse  # that user may not be able to read Python's library
from palbert.serving.audit_reader import read_audit_log
if os.name == "posix" and os.geteuid() == 0:  # root may write everywhere
    os.setuid(65534)
try:
    print([row["request_id"] for row in read_audit_log(sys.argv[1])])
except ValueError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders may be closed to other users
        copy = Path(name, "what? #1%20.sqlite")
        shutil.copyfile(path, copy)
        copy.chmod(0o444)
        Path(name).chmod(0o555)
        command = [sys.executable, "-c", code, str(copy)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        Path(name).chmod(0o755)
        copy.with_name(f"{copy.name}-wal").write_bytes(b"x" * 100)
        copy.with_name(f"{copy.name}-wal").chmod(0o444)
        Path(name).chmod(0o555)
        incomplete = subprocess.run(command, capture_output=True, text=True, timeout=60)
        Path(name).chmod(0o755)
    assert (result.stdout, result.stderr) == ("['a', 'b']\n", "")
    assert "cannot be read where it is" in incomplete.stdout and "-wal" in incomplete.stdout


def test_a_copy_with_its_write_ahead_log_has_all_rows(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.sqlite")
    log.put([entry("a"), entry("b")])
    assert log.flush(20)
    for end in ("", "-wal"):
        shutil.copyfile(f"{log.path}{end}", f"{tmp_path / 'copy.sqlite'}{end}")
    log.close()
    assert ids(tmp_path / "copy.sqlite") == ["a", "b"]


def test_a_missing_log_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such audit log.*--audit off"):
        read_audit_log(tmp_path / "log.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Dear diary, " * 100)
    (tmp_path / "empty").touch()
    connection = sqlite3.connect(tmp_path / "other")
    connection.execute("CREATE TABLE entries (id)")
    connection.close()
    for name in ("text", "empty", "other"):
        with pytest.raises(DataError, match="not an audit log"):
            read_audit_log(tmp_path / name)


def test_damage_is_an_error_that_names_the_file(write: Callable[..., Path]) -> None:
    path = write(*(entry(str(number), input="x" * 500) for number in range(1_000)))
    whole = path.read_bytes()
    path.write_bytes(whole[:12_288] + os.urandom(len(whole) - 12_288))
    with pytest.raises(DataError, match=r"log.sqlite: (damaged|row \d+ is damaged).*recover"):
        ids(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"log.sqlite: (damaged|row \d+ is damaged).*recover"):
        ids(path)


def test_a_damaged_row_is_named(write: Callable[..., Path]) -> None:
    path = write(entry("a"), entry("b"))
    for damage in ("answer = '{'", "time = 1e300", "answer = '{}', input = '['"):
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute(f"UPDATE entries SET {damage} WHERE id = 2")
        connection.close()
        with pytest.raises(DataError, match="row 2 is damaged"):
            ids(path)


@pytest.mark.parametrize("given", ["", "yesterday", "2026-01-31T25:00"])
def test_what_is_no_time_is_refused(given: str, write: Callable[..., Path]) -> None:
    with pytest.raises(PalbertError, match=r"since: Expected a date or a time in ISO 8601, such as 2026-01-31"):
        read_audit_log(write(), since=given)


def test_entries_are_values_of_json(write: Callable[..., Path]) -> None:
    [row] = read_audit_log(write(entry("a", input=PAIR)))
    assert json.loads(json.dumps(row)) == row
