"""The audit log: inputs and answers, written by a thread of its own, and what happens if they cannot be written."""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Literal

from palbert.errors import PalbertError
from palbert.serving.audit_entry import AuditEntry, Keep, Value, row_of
from palbert.serving.audit_file import AuditFile, hash_key

__all__ = ["AuditEntry", "AuditLog", "default_log"]

BATCH, PAUSE = 100, 0.05
"""Rows that are written at once without waiting for more, and seconds after which fewer are written."""
LARGEST_BATCH = 256
"""Rows per transaction; while they are prepared, requests wait."""
MOST_ROWS, MOST_CHARACTERS = 20_000, 50_000_000
"""What may wait to be written."""
RETRY = 1.0
"""Seconds between two attempts to write to a log that cannot be written."""
WARN_EVERY = 60.0
TIDY_EVERY, SLICE = 60.0, 1_000
"""Seconds between two searches for rows that are too old, and rows that are deleted at once."""
DAY = 86_400.0

logger = logging.getLogger(__name__)


def default_log(run: Path) -> Path:
    """Return where a run's log is, unless somebody chose another place: next to the run folder."""
    return Path(f"{os.path.abspath(run)}.audit.sqlite")  # without a final slash or dots


class AuditLog:
    """Take entries at once, and have a thread write them in batches. Any thread may use it.

    A batch is written when 100 rows wait or 50 ms have passed, so that a process that is killed loses at most the rows
    of the last moments. Rows that cannot be written wait in memory and are tried again every second, up to 20,000 rows
    or 50 million characters of inputs; what happens beyond that is `when_full`.

    Args:
        path: The database, which is made if there is none.
        keep: "texts" keeps inputs and answers; "hashes" keeps keyed hashes of inputs, and of answers what contains
            no text; "off" keeps nothing and needs no file.
        days: Delete rows that are older. None: keep all.
        when_full: What to do if rows cannot be written. "serve" goes on, and drops and counts rows when no more can
            wait. "refuse" makes `healthy` False, drops nothing, and flushes each batch to the disk; the caller must
            not begin requests until `healthy` is True again, which also bounds the memory.
        busy_seconds: How long to wait for other processes that write to the same file.

    Raises:
        PalbertError: The log cannot be opened or written at the start, under both policies.
    """

    def __init__(
        self,
        path: Path,
        *,
        keep: Keep = "texts",
        days: float | None = None,
        when_full: Literal["serve", "refuse"] = "serve",
        busy_seconds: float = 5.0,
    ) -> None:
        if days is not None and not days > 0:
            raise PalbertError(f"An audit log keeps rows for a number of days above 0, found {days}.")
        self.path, self.keep, self.when_full = path, keep, when_full
        self.dropped = 0
        """Rows that were not written and never will be."""
        self._days = days
        self._waiting: deque[AuditEntry] = deque()
        self._characters = 0
        self._problem: str | None = None
        self._warned = -WARN_EVERY
        self._told = 0  # how many of the dropped rows the program's log has told of
        self._tidy_at = time.monotonic() if days else float("inf")
        self._give_up_at: float | None = None
        lock = Lock()
        self._work, self._written = Condition(lock), Condition(lock)
        self._is_off = keep == "off"
        if self._is_off:
            return
        self._file = AuditFile(path, durable=when_full == "refuse", busy_seconds=busy_seconds)
        self._key = hash_key(self._file.connection) if keep == "hashes" else None
        self._thread = Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def problem(self) -> str | None:
        """Why the log cannot be written at the moment; None if it can."""
        return self._problem

    @property
    def healthy(self) -> bool:
        """Whether requests may be served: False under "refuse" while rows cannot be written, or not fast enough."""
        return self.when_full == "serve" or (self._problem is None and not self._is_full(0, 0))

    @property
    def waiting(self) -> int:
        """How many rows are not written yet."""
        return len(self._waiting)

    def put(self, entries: Sequence[AuditEntry]) -> None:
        """Have entries written. It takes microseconds, whatever the disk does.

        Raises:
            RuntimeError: The log is closed.
        """
        if self._is_off:
            return
        characters = sum([entry.characters for entry in entries])
        with self._work:
            if self._give_up_at is not None:
                raise RuntimeError("the audit log is closed")
            if self.when_full == "serve" and self._is_full(len(entries), characters):
                self.dropped += len(entries)
                return
            before = len(self._waiting)
            self._waiting.extend(entries)
            self._characters += characters
            if before == 0 or before < BATCH <= len(self._waiting):
                self._work.notify()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits to be written; return whether that is so."""
        with self._written:
            return self._written.wait_for(lambda: not self._waiting, timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Write what waits and close the file; rows that cannot be written until the timeout are dropped and logged."""
        if self._is_off:
            return
        with self._work:
            if self._give_up_at is None:
                self._give_up_at = time.monotonic() + timeout
                self._work.notify()
        self._thread.join(timeout + 10.0)  # longer than SQLite waits for other processes
        atexit.unregister(self.close)

    def _is_full(self, rows: int, characters: int) -> bool:
        """Whether there is no room for more; a single request has room whatever its size."""
        if not self._waiting:
            return False
        return len(self._waiting) + rows > MOST_ROWS or self._characters + characters > MOST_CHARACTERS

    def _run(self) -> None:
        """Write until the log is closed: the thread."""
        while True:
            with self._work:
                self._wait()
                batch = list(islice(self._waiting, LARGEST_BATCH))
                if self._give_up_at is not None and (not batch or self._has_given_up(self._give_up_at)):
                    break
            if batch:
                self._write(batch)
            if time.monotonic() >= self._tidy_at:
                self._tidy()
        self._finish()

    def _wait(self) -> None:
        """Wait for rows and, if they are few, some milliseconds for more; for the next attempt after a failure."""
        if self._give_up_at is not None and self._problem is None:
            return
        if self._problem is not None:
            self._work.wait(RETRY if self._give_up_at is None else RETRY / 10.0)
            return
        if not self._waiting:
            left = self._tidy_at - time.monotonic()
            self._work.wait(None if left == float("inf") else max(left, 0.0))
        if 0 < len(self._waiting) < BATCH and self._give_up_at is None:
            self._work.wait(PAUSE)

    def _has_given_up(self, end: float) -> bool:
        return self._problem is not None and time.monotonic() > end

    def _write(self, batch: list[AuditEntry]) -> None:
        """Write a batch, which leaves the queue only when it is in the file."""
        rows = [row for entry in batch if (row := self._row(entry))]
        try:
            self._file.write(rows)
        except Exception as error:  # of SQLite, or of the system: whatever it is, rows wait and the thread stays
            self._fail(error)
            return
        with self._written:
            for entry in batch:
                self._waiting.popleft()
                self._characters -= entry.characters
            self.dropped += len(batch) - len(rows)
            self._told += len(batch) - len(rows)  # by `_row`
            recovered, self._problem = self._problem, None
            if not self._waiting:
                self._written.notify_all()
        if recovered:
            logger.warning("%s: written again; %d rows were dropped in all.", self.path, self.dropped)
        elif self.dropped > self._told:
            self._warn("rows came faster than they were written")

    def _row(self, entry: AuditEntry) -> tuple[Value, ...] | None:
        """Return an entry as it is written; None, and an error in the log, for one that cannot be."""
        try:
            return row_of(entry, self._key)
        except Exception:  # one such entry must not stop all others
            logger.exception("Request %s cannot be written to the audit log.", entry.request_id)
            return None

    def _fail(self, error: Exception) -> None:
        self._problem = f"{type(error).__name__}: {error}" if not isinstance(error, sqlite3.Error) else str(error)
        self._warn(self._problem)

    def _warn(self, problem: str) -> None:
        """Log a problem, at most once per minute."""
        now = time.monotonic()
        if now - self._warned < WARN_EVERY:
            return
        self._warned, self._told = now, self.dropped
        policy = "are answered all the same" if self.when_full == "serve" else "are refused"
        logger.warning(
            "%s: the audit log is not written: %s. %d rows wait, %d were dropped; requests %s.",
            *(self.path, problem, len(self._waiting), self.dropped, policy),
        )

    def _tidy(self) -> None:
        """Delete some rows that are too old; look again at once if there are more."""
        more = False
        try:
            oldest = time.time() - DAY * (self._days or 0.0)
            more = self._file.delete_before(oldest, most=SLICE) == SLICE or self._file.shrink()
        except Exception as error:  # it is tried again in a minute; until then, the file only grows
            logger.warning("%s: rows that are too old cannot be deleted: %s.", self.path, error)
        self._tidy_at = time.monotonic() + (0.0 if more else TIDY_EVERY)

    def _finish(self) -> None:
        """Drop what could not be written, and close the file."""
        with self._written:
            lost = len(self._waiting)
            self._waiting.clear()
            self.dropped += lost
            self._written.notify_all()
        if lost:
            logger.error("%s: %d rows are lost: %s.", self.path, lost, self._problem)
        self._file.close()
