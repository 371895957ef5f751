"""The file of the audit log: an SQLite database, its format, and how rows get into it and out of it again."""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from palbert.errors import DataError, PalbertError, RunFolderError
from palbert.runtime.durable import make_folder
from palbert.runtime.files import disk_errors
from palbert.runtime.private import make_private_file
from palbert.serving.audit_entry import COLUMNS, Value

FORMAT = 1
APPLICATION = 0x50414C42
"""How SQLite's header names the kind of file: "PALB"."""
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, time REAL NOT NULL, request_id TEXT NOT NULL,"
    " client TEXT NOT NULL, run TEXT NOT NULL, fingerprint TEXT NOT NULL, task TEXT NOT NULL,"
    " input TEXT, input_hmac TEXT, answer TEXT NOT NULL, seconds REAL NOT NULL)",
    "CREATE INDEX IF NOT EXISTS entries_time ON entries (time)",
)
INSERT = f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES ({', '.join('?' for _ in COLUMNS)})"
EMPTY_WAL = 1 << 24
"""Bytes that the write-ahead log may occupy while it is empty."""
PAGES = 500
"""Free pages that are given back to the file system at once."""
DAMAGED = "Move the file away, and a new one is made; sqlite3 FILE .recover saves what can be read."


class AuditFile:
    """A log that is open for writing; several processes may write to the same one. One thread at a time may use it.

    Args:
        path: The database, which is made if there is none. A symbolic link is refused.
        durable: Flush each transaction to the disk, so that it survives a power loss, not only the process.
        busy_seconds: How long to wait for other processes that write.

    Raises:
        DataError: The file is not an audit log, or is damaged.
        RunFolderError: It cannot be written.
    """

    def __init__(self, path: Path, *, durable: bool = False, busy_seconds: float = 5.0) -> None:
        self.path = path.absolute()
        _make(self.path)
        self.connection = sqlite3.connect(
            str(self.path), timeout=busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(durable, until=time.monotonic() + busy_seconds)
            self._place = _place(self.path)
        except sqlite3.Error as error:
            self.connection.close()
            raise explained(self.path, error) from error
        except BaseException:
            self.connection.close()
            raise

    def write(self, rows: Sequence[Sequence[Value]]) -> None:
        """Write rows in one transaction; after an error of SQLite or the system, none of them is written."""
        if _place(self.path) != self._place:
            # Another file of this name would share the write-ahead log with this one, which damages both.
            raise OSError("the file was moved or removed while it was in use; start the service again")
        with self._transaction():
            self.connection.executemany(INSERT, rows)

    def delete_before(self, oldest: float, *, most: int) -> int:
        """Delete at most so many of the rows that are older than a time; return how many were deleted."""
        old = "SELECT id FROM entries WHERE time < ? ORDER BY time LIMIT ?"
        return self.connection.execute(f"DELETE FROM entries WHERE id IN ({old})", (oldest, most)).rowcount

    def shrink(self) -> bool:
        """Give some free pages back to the file system; return whether there are more."""
        self.connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
        return bool(_only(self.connection, "PRAGMA freelist_count"))

    def close(self) -> None:
        """Close the database; if no other process uses it, the file is complete without its write-ahead log."""
        self.connection.close()

    def _prepare(self, durable: bool, *, until: float) -> None:
        """Make the tables of a new file, check an old one, and make sure that it can be written."""
        run = self.connection.execute
        is_new = not _only(self.connection, "SELECT count(*) FROM sqlite_master")
        if not is_new:
            check_format(self.connection, self.path)
        run("PRAGMA auto_vacuum = INCREMENTAL")  # only has an effect before there are tables
        _set_journal(self.connection, until)
        run(f"PRAGMA journal_size_limit = {EMPTY_WAL}")
        run(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        run("PRAGMA secure_delete = ON")  # texts that were deleted must not stay in free pages
        with self._transaction():  # which a file that cannot be written refuses
            if is_new:
                for statement in SCHEMA:
                    run(statement)
                made = datetime.now(timezone.utc).isoformat(timespec="seconds")
                for key, value in (("format", FORMAT), ("created", made), ("hmac_key", secrets.token_bytes(32))):
                    run("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, value))  # another process may be first
                run(f"PRAGMA application_id = {APPLICATION}")
        check_format(self.connection, self.path)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.rollback()
            raise


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise DataError for a database that is not an audit log, or one of a later version."""
    if _only(connection, "PRAGMA application_id") != APPLICATION:
        raise DataError(f"{path}: not an audit log of palbert.", hint="Give another file with --audit-log or --log.")
    found = _only(connection, "SELECT value FROM meta WHERE key = 'format'")
    if found != FORMAT:
        raise DataError(f"{path}: expected an audit log of format {FORMAT}, found {found}.", hint="Update palbert.")


def hash_key(connection: sqlite3.Connection) -> bytes:
    """Return the key with which a log's texts are hashed."""
    return bytes(_only(connection, "SELECT value FROM meta WHERE key = 'hmac_key'"))


def explained(path: Path, error: sqlite3.Error) -> PalbertError:
    """Return an error of SQLite as one that says what to do."""
    if isinstance(error, sqlite3.OperationalError):
        hint = "Check the disk and the permissions of the file and its folder, or give another file."
        return RunFolderError(f"{path}: the audit log cannot be used: {error}.", hint=hint)
    return DataError(f"{path}: damaged, or not an audit log: {error}.", hint=DAMAGED)


def _make(path: Path) -> None:
    """Make the file if there is none, for its owner only; SQLite gives files next to it the same mode."""
    if path.parent.exists() and not path.parent.is_dir():
        raise RunFolderError(f"{path.parent}: expected the folder of the audit log, found a file.")
    with disk_errors(path):
        make_folder(path.parent)
        make_private_file(path)
        mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):  # whoever made it would choose where texts are written
        raise RunFolderError(f"{path}: the audit log is a symbolic link.", hint="Give the file that it leads to.")
    if not stat.S_ISREG(mode):
        raise RunFolderError(f"{path}: expected a file for the audit log, found something else.")


def _set_journal(connection: sqlite3.Connection, until: float) -> None:
    """Let readers read while rows are written; SQLite itself does not wait for another process that does the same."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _place(path: Path) -> tuple[int, int]:
    """Return what tells a file from another one of the same name."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _only(connection: sqlite3.Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None
