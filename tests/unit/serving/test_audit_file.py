"""The file of the audit log: its format and mode, what is refused, and how it stays small."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from palbert.errors import DataError, RunFolderError
from palbert.serving.audit_entry import Value
from palbert.serving.audit_file import APPLICATION, AuditFile, hash_key

posix = pytest.mark.skipif(os.name != "posix", reason="needs modes of POSIX")


def rows(count: int, *, time: float = 0.0, text: str = "x") -> list[tuple[Value, ...]]:
    return [(time + n, f"r{n}", "c", "demo", "3f", "sst", f'"{text}"', None, "{}", 0.1) for n in range(count)]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[AuditFile]:
    opened = AuditFile(tmp_path / "new" / "demo.audit.sqlite", busy_seconds=0.2)
    yield opened
    opened.close()


def count(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT count(*) FROM entries").fetchone()[0])
    finally:
        connection.close()


def test_rows_are_there_when_they_are_written(file: AuditFile) -> None:
    for size in (0, 1, 100, 300):
        file.write(rows(size))
    assert count(file.path) == 401


def test_the_format_is_as_documented(file: AuditFile) -> None:
    file.write(rows(1))
    connection = sqlite3.connect(file.path)
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    assert meta["format"] == 1 and len(meta["hmac_key"]) == 32 and meta["created"].endswith("+00:00")
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(entries)")]
    assert columns == [
        *("id", "time", "request_id", "client", "run", "fingerprint", "task"),
        *("input", "input_hmac", "answer", "seconds"),
    ]
    pragmas = ("application_id", "auto_vacuum", "journal_mode")
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    connection.close()
    assert found == [APPLICATION, 2, "wal"]


@posix
def test_the_files_are_readable_by_their_owner_only(file: AuditFile) -> None:
    file.write(rows(10))
    names = {path.name: path.stat().st_mode & 0o777 for path in file.path.parent.iterdir()}
    assert names == {f"demo.audit.sqlite{end}": 0o600 for end in ("", "-wal", "-shm")}


def test_the_key_stays_and_differs_between_logs(file: AuditFile, tmp_path: Path) -> None:
    key = hash_key(file.connection)
    again, other = AuditFile(file.path), AuditFile(tmp_path / "other.sqlite")
    assert hash_key(again.connection) == key != hash_key(other.connection)
    again.close()
    other.close()


def test_a_batch_is_written_completely_or_not_at_all(file: AuditFile) -> None:
    broken = [*rows(50), (None, *rows(1)[0][1:])]
    with pytest.raises(sqlite3.IntegrityError):
        file.write(broken)
    assert count(file.path) == 0
    file.write(rows(2))
    assert count(file.path) == 2


def test_old_rows_are_deleted_in_slices_and_the_file_shrinks(file: AuditFile) -> None:
    file.write(rows(1_000, text="secret" * 200))
    file.write(rows(10, time=5_000.0, text="kept"))
    file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = file.path.stat().st_size
    assert [file.delete_before(4_000.0, most=400) for _ in range(4)] == [400, 400, 200, 0]
    while file.shrink():
        pass
    file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert count(file.path) == 10
    assert file.path.stat().st_size < before / 20
    content = file.path.read_bytes()
    assert b"secret" not in content and b"kept" in content


def test_a_file_that_was_moved_away_is_not_written_to(file: AuditFile) -> None:
    file.write(rows(1))
    moved = file.path.rename(file.path.with_name("moved.sqlite"))
    with pytest.raises(OSError, match="No such file"):
        file.write(rows(1))
    file.path.touch()
    with pytest.raises(OSError, match="was moved or removed while it was in use"):
        file.write(rows(1))
    moved.replace(file.path)
    file.write(rows(1))
    assert count(file.path) == 2


@posix
def test_a_link_is_refused_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target.sqlite"
    (tmp_path / "log.sqlite").symlink_to(target)
    with pytest.raises(RunFolderError, match="symbolic link"):
        AuditFile(tmp_path / "log.sqlite")
    assert not target.exists()
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ""):
        with pytest.raises(RunFolderError, match="expected a file"):
            AuditFile(tmp_path / name)


def test_other_files_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Dear diary, " * 1_000)
    connection = sqlite3.connect(tmp_path / "other.sqlite")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    AuditFile(tmp_path / "later.sqlite").close()
    connection = sqlite3.connect(tmp_path / "later.sqlite", isolation_level=None)
    connection.execute("UPDATE meta SET value = 2 WHERE key = 'format'")
    connection.close()
    for name, says in (("text", "not an audit log"), ("other.sqlite", "not an audit log"), ("later.sqlite", "found 2")):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(DataError, match=says):
            AuditFile(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_a_log_locked_by_another_process_is_an_error_after_the_wait(file: AuditFile) -> None:
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        file.write(rows(1))
    with pytest.raises(RunFolderError, match="cannot be used: database is locked"):
        AuditFile(file.path, busy_seconds=0.1)
    other.close()
    file.write(rows(1))


@posix
def test_a_log_that_may_not_be_written_is_an_error_at_the_start() -> None:
    code = """
import os, sys
from pathlib import Path
from palbert.errors import PalbertError
from palbert.serving.audit_file import AuditFile
if os.geteuid() == 0:  # root may write everywhere
    os.setuid(65534)
for name in ("log.sqlite", "new.sqlite"):
    try:
        AuditFile(Path(sys.argv[1], name))
    except PalbertError as error:
        print(error)
"""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders may be closed to other users
        folder = Path(name)
        AuditFile(folder / "log.sqlite").close()
        (folder / "log.sqlite").chmod(0o444)
        folder.chmod(0o555)
        result = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, timeout=60)
        folder.chmod(0o755)
    assert result.stderr == ""
    first, second = result.stdout.splitlines()
    assert "log.sqlite: the audit log cannot be used: " in first and "permissions" in first
    assert "new.sqlite: cannot be written: Permission denied" in second


@posix
def test_processes_that_make_a_log_at_once_share_it(tmp_path: Path) -> None:
    code = """
import sys
import tempfile
from pathlib import Path
from palbert.serving.audit_file import AuditFile, hash_key
file = AuditFile(Path(sys.argv[1]), busy_seconds=30)
for number in range(40):
    file.write([(number, str(number), "c", "r", "f", "t", "1", None, "{}", 0.1)] * 25)
print(hash_key(file.connection).hex())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "log.sqlite")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    keys = {process.communicate(timeout=120)[0] for process in started}
    assert len(keys) == 1 and len(keys.pop()) == 65
    assert count(tmp_path / "log.sqlite") == 3_000
