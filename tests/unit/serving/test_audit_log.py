"""The audit log: rows written off the request's path, and what is lost when they cannot be: under "refuse", nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import DataError, PalbertError
from palbert.serving import audit_log
from palbert.serving.audit_file import AuditFile
from palbert.serving.audit_log import AuditEntry, AuditLog, default_log
from palbert.serving.audit_reader import read_audit_log

Open = Callable[..., AuditLog]
posix = pytest.mark.skipif(os.name != "posix", reason="needs signals and limits of POSIX")


def entry(number: int, text: str = "A quiet little triumph.", **changes: Any) -> AuditEntry:
    made = AuditEntry(float(number), f"r{number}", "website", "demo", "3f", "sst", text, {"prediction": "a"}, 0.01)
    return made._replace(**changes)


def entries(first: int, after: int, text: str = "A quiet little triumph.") -> list[AuditEntry]:
    return [entry(number, text) for number in range(first, after)]


def written(path: Path) -> list[int]:
    return [int(row["request_id"][1:]) for row in read_audit_log(path)]


def until(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait until something holds; return whether it does."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.audit.sqlite"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "RETRY", 0.05)


@pytest.fixture
def open_log(path: Path) -> Iterator[Open]:
    """Return a function that opens a log, which is closed at the end."""
    opened: list[AuditLog] = []

    def open_one(place: Path = path, **settings: Any) -> AuditLog:
        opened.append(AuditLog(place, **{"busy_seconds": 0.1, **settings}))
        return opened[-1]

    yield open_one
    for log in opened:
        log.close(timeout=0.2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a real disk of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


# Writing


def test_what_is_put_is_written_in_order(open_log: Open, path: Path) -> None:
    log = open_log()
    for number in range(10):
        log.put(entries(100 * number, 100 * number + 99))
        log.put([entry(100 * number + 99)])
    assert log.flush(20) and log.waiting == 0
    assert written(path) == list(range(1_000))
    [first, *_] = read_audit_log(path)
    assert first == {
        "time": "1970-01-01T00:00:00.000000Z",
        "request_id": "r0",
        "client": "website",
        "run": "demo",
        "fingerprint": "3f",
        "task": "sst",
        "input": "A quiet little triumph.",
        "answer": {"prediction": "a"},
        "seconds": 0.01,
    }


def test_a_single_row_is_written_soon(open_log: Open, path: Path) -> None:
    log = open_log()
    log.put([entry(1)])
    assert until(lambda: written(path) == [1])
    log.put([])
    log.put([entry(2)])
    assert until(lambda: written(path) == [1, 2])


def test_threads_may_put_at_once(open_log: Open, path: Path) -> None:
    log = open_log()
    threads = [
        threading.Thread(target=lambda first=first: [log.put([entry(first + n)]) for n in range(500)])
        for first in (0, 500, 1_000, 1_500)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.flush(20) and written(path) == list(range(2_000))


def test_close_writes_what_waits(open_log: Open, path: Path) -> None:
    log = open_log()
    log.put(entries(0, 3_000))
    log.close()
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert written(path) == list(range(3_000)) and log.dropped == 0
    with pytest.raises(RuntimeError, match="closed"):
        log.put([entry(1)])
    log.close()


def test_a_log_that_is_off_writes_nothing(open_log: Open, path: Path) -> None:
    log = open_log(keep="off", when_full="refuse")
    log.put(entries(0, 10))
    assert log.flush(1) and log.healthy and log.waiting == 0
    assert not path.exists()


def test_with_hashes_no_text_is_in_any_file(open_log: Open, path: Path) -> None:
    log = open_log(keep="hashes")
    log.put([entry(1, "A quiet little triumph.", answer={"prediction": "a", "explanation": {"words": ["quiet"]}})])
    log.flush(20)
    content = b"".join(each.read_bytes() for each in path.parent.iterdir())
    assert b"quiet" not in content and b"triumph" not in content
    [row] = read_audit_log(path)
    assert row["answer"] == {"prediction": "a"} and len(row["input_hmac"]) == 64 and "input" not in row


def test_an_entry_that_cannot_be_written_does_not_stop_the_others(
    open_log: Open, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log()
    endless: dict[str, Any] = {}
    endless["again"] = endless
    log.put([entry(1), entry(2, answer=endless), entry(3)])
    assert log.flush(20) and written(path) == [1, 3]
    assert log.dropped == 1 and "r2 cannot be written" in caplog.text
    log.put([entry(4)])
    assert log.flush(20) and "came faster" not in caplog.text


@posix
def test_several_processes_write_to_one_log(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from palbert.serving.audit_file import AuditFile
from palbert.serving.audit_log import AuditEntry, AuditLog
log = AuditLog(Path(sys.argv[1]), busy_seconds=60)
first = int(sys.argv[2])
for n in range(first, first + 1000):
    log.put([AuditEntry(float(n), f"r{n}", "c", "demo", "3f", "sst", "text", {"prediction": "a"}, 0.01)])
log.close(60)
print(log.dropped)
"""
    started = [
        subprocess.Popen([sys.executable, "-c", code, path, str(first)], stdout=subprocess.PIPE, text=True)
        for first in (0, 1_000, 2_000)
    ]
    assert [process.communicate(timeout=120)[0] for process in started] == ["0\n"] * 3
    assert written(path) == list(range(3_000))


@posix
def test_a_process_that_is_killed_loses_only_the_last_moments(path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from palbert.serving.audit_file import AuditFile
from palbert.serving.audit_log import AuditEntry, AuditLog
log = AuditLog(Path(sys.argv[1]))
for n in range(10**9):
    log.put([AuditEntry(float(n), f"r{n}", "c", "demo", "3f", "sst", "text", {"prediction": "a"}, 0.01)])
    print(n, time.monotonic(), flush=True)
    time.sleep(0.002)
"""
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(400)]
    os.kill(process.pid, signal.SIGKILL)
    killed = time.monotonic()
    lines += process.communicate(timeout=60)[0].splitlines()
    put = [(int(number), float(at)) for number, at in map(str.split, lines)]
    # 50 ms are promised; a machine that is busy with other tests may be late.
    early = [number for number, at in put if at < killed - 1.0 or number < 100]
    found = written(path)
    assert found == list(range(len(found)))
    assert len(found) >= len(early) >= 100
    with_more = AuditLog(path)
    with_more.put([entry(len(found))])
    with_more.close()
    assert written(path) == list(range(len(found) + 1))


# What is too old


def test_old_rows_are_deleted_and_new_ones_stay(open_log: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "SLICE", 100)
    log = open_log()
    now = time.time()
    old = [entry(n, time=now - 8 * 86_400) for n in range(950)]
    log.put([*old, *(entry(n, time=now - 6 * 86_400) for n in range(1_000, 1_010))])
    log.flush(20)
    log.close()
    log = open_log(days=7)
    log.put([entry(2_000, time=now)])
    assert until(lambda: written(path) == [*range(1_000, 1_010), 2_000])


def test_old_rows_that_cannot_be_deleted_are_no_problem_of_new_ones(
    open_log: Open, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(AuditFile, "delete_before", refuse)
    log = open_log(days=1, when_full="refuse")
    log.put([entry(1)])
    assert log.flush(20) and until(lambda: "too old cannot be deleted: disk I/O error." in caplog.text)
    assert log.healthy and written(path) == [1] and "is not written" not in caplog.text
    end = lock(log)
    log.put([entry(2)])
    assert until(lambda: "is not written" in caplog.text)  # the one warning does not hide the other
    end()


def test_rows_grow_too_old_while_the_log_is_open(open_log: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "TIDY_EVERY", 0.05)
    log = open_log(days=1 / 86_400)
    log.put([entry(1, time=time.time())])
    assert log.flush(20)
    assert until(lambda: written(path) == [])


# What cannot be written


def fill(log: AuditLog) -> Callable[[], None]:
    """Let the database not grow; return a function that lets it grow again."""
    connection = log._file.connection  # a real SQLITE_FULL, as on a full disk, needs the log's own connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return lambda: connection.execute("PRAGMA max_page_count = 1000000").close()


def lock(log: AuditLog) -> Callable[[], None]:
    """Lock the database as another process would; return what unlocks it."""
    other = sqlite3.connect(log.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def move(log: AuditLog) -> Callable[[], None]:
    """Move the database away; return what moves it back."""
    moved = log.path.rename(log.path.with_name("moved"))
    return lambda: os.replace(moved, log.path)


TROUBLES = [(fill, "database or disk is full"), (lock, "database is locked"), (move, "No such file")]


@pytest.mark.parametrize(("trouble", "says"), TROUBLES, ids=["full", "locked", "moved"])
def test_under_refuse_nothing_is_lost(
    trouble: Any, says: str, open_log: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "MOST_ROWS", 10)
    log = open_log(when_full="refuse")
    log.put(entries(0, 10))
    assert log.flush(20) and log.healthy
    end = trouble(log)
    log.put(entries(10, 200))
    assert until(lambda: not log.healthy)
    log.put(entries(200, 300))  # of requests that had begun before
    assert until(lambda: says in (log.problem or ""))
    assert not log.flush(0.2) and log.waiting == 290
    end()
    assert log.flush(20) and until(lambda: log.healthy) and log.problem is None
    assert written(path) == list(range(300)) and log.dropped == 0


@pytest.mark.parametrize(("trouble", "says"), TROUBLES, ids=["full", "locked", "moved"])
def test_under_serve_rows_that_have_no_room_are_counted_and_the_service_goes_on(
    trouble: Any,
    says: str,
    open_log: Open,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(audit_log, "MOST_ROWS", 100)
    log = open_log(when_full="serve")
    log.put(entries(0, 10))
    assert log.flush(20)
    end = trouble(log)
    log.put(entries(10, 60))
    assert until(lambda: log.problem is not None)
    for number in range(60, 500):
        log.put([entry(number)])
    assert (log.healthy, log.waiting, log.dropped) == (True, 100, 390)
    time.sleep(0.5)  # several attempts
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and says in warnings[0] and "answered all the same" in warnings[0]
    end()
    assert log.flush(20) and log.problem is None
    assert written(path) == list(range(110))
    assert until(lambda: "written again; 390 rows were dropped" in caplog.text)
    log.put([entry(500)])
    assert log.flush(20) and written(path)[-1] == 500


def test_warnings_are_repeated_with_the_count(
    open_log: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_log, "MOST_ROWS", 10)
    monkeypatch.setattr(audit_log, "WARN_EVERY", 0.3)
    log = open_log()
    end = lock(log)
    log.put(entries(0, 10))
    assert until(lambda: log.problem is not None)
    log.put(entries(10, 17))
    assert until(lambda: "10 rows wait, 7 were dropped" in caplog.text)
    end()


def test_rows_that_come_faster_than_they_are_written_are_dropped_with_a_warning(
    open_log: Open, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_log, "MOST_CHARACTERS", 1_000)
    log = open_log()
    log.put([entry(1, "x" * 5_000)])  # has room, however long it is
    log.put([entry(2, "x")])
    assert log.flush(20)
    log.put([entry(3)])
    assert log.flush(20) and until(lambda: "came faster" in caplog.text)
    assert written(path) == [1, 3] and log.dropped == 1


def test_under_refuse_a_full_queue_is_not_healthy(open_log: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "MOST_ROWS", 100)
    log = open_log(when_full="refuse", busy_seconds=5.0)
    end = lock(log)  # for less than SQLite waits: nothing has failed yet
    log.put(entries(0, 200))
    assert not log.healthy and log.problem is None
    end()
    assert log.flush(20) and log.healthy and log.dropped == 0


def test_rows_that_cannot_be_written_until_the_end_are_counted(
    open_log: Open, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(when_full="refuse")
    end = lock(log)
    log.put(entries(0, 300))
    log.close(timeout=0.3)
    end()
    assert log.dropped == 300 and "300 rows are lost: database is locked" in caplog.text
    assert written(path) == []


@pytest.mark.parametrize("when_full", ["serve", "refuse"])
def test_a_log_that_is_damaged_meanwhile_is_a_problem_and_no_crash(when_full: Any, open_log: Open, path: Path) -> None:
    log = open_log(when_full=when_full)
    log.put(entries(0, 2_000))
    log.flush(20)
    log._file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + os.urandom(len(whole) - 100))
    log._file.connection.execute("PRAGMA shrink_memory")  # which pages are read again is SQLite's choice
    log.put(entries(2_000, 2_100))
    assert until(lambda: log.problem is not None) and "malformed" in (log.problem or "")
    assert log.healthy == (when_full == "serve")
    log.close(timeout=0.1)
    assert log.dropped == 100
    with pytest.raises(DataError, match="damaged"):
        AuditLog(path)


@posix
@pytest.mark.parametrize("when_full", ["serve", "refuse"])
def test_a_full_disk_loses_nothing_that_has_room(when_full: Any, small_disk: Path, open_log: Open) -> None:
    path = small_disk / "log.sqlite"
    log = open_log(path, when_full=when_full)
    number = 0
    while log.problem is None:
        log.put(entries(number, number + 10, "A long text. " * 50))
        number += 10
        log.flush(0.05)
    assert "full" in log.problem or "disk I/O" in log.problem
    assert log.healthy == (when_full == "serve") and 0 < len(written(path)) < number
    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
    assert log.flush(20) and log.healthy and log.dropped == 0
    assert written(path) == list(range(number))
    log.close()  # before its disk goes


@posix
def test_a_limit_on_the_size_of_files_loses_nothing_under_refuse(path: Path) -> None:
    code = """
import resource, sys, time
from pathlib import Path
from palbert.serving import audit_log
from palbert.serving.audit_file import AuditFile
from palbert.serving.audit_log import AuditEntry, AuditLog
audit_log.RETRY = 0.05
log = AuditLog(Path(sys.argv[1]), when_full="refuse")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
n = 0
while log.healthy:
    log.put([AuditEntry(float(n), f"r{n}", "c", "demo", "3f", "sst", "text " * 200, {"prediction": "a"}, 0.01)])
    n += 1
    log.flush(0.05)
print(n, log.waiting > 0, log.problem)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
print(log.flush(30), log.healthy, log.dropped)
log.close()
"""
    result = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=120)
    first, second = result.stdout.splitlines()
    count, waits, problem = first.split(maxsplit=2)
    assert waits == "True" and ("full" in problem or "disk I/O error" in problem)
    assert second == "True True 0" and "requests are refused" in result.stderr
    assert written(path) == list(range(int(count)))


def test_a_log_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path, path: Path) -> None:
    (tmp_path / "file").touch()
    for place, settings in ((tmp_path / "file" / "log", {}), (path, {"days": 0}), (path, {"days": float("nan")})):
        for policy in ("serve", "refuse"):
            with pytest.raises(PalbertError):
                AuditLog(place, when_full=policy, **settings)  # type: ignore[arg-type]


def test_the_default_log_is_next_to_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "runs" / "demo.audit.sqlite"
    assert default_log(Path("runs/demo/")) == place and default_log(tmp_path / "runs" / "x" / ".." / "demo") == place
    assert default_log(Path()) == tmp_path.with_name(f"{tmp_path.name}.audit.sqlite")
