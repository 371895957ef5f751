"""Read an audit log, while a service writes to it or from a copy."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from palbert.errors import DataError, PalbertError, RunFolderError
from palbert.runtime.times import read_time
from palbert.serving.audit_entry import COLUMNS, hash_of
from palbert.serving.audit_file import DAMAGED, check_format, explained, hash_key

SLICE = 500
"""Rows per query: while a query runs, what is written meanwhile cannot be moved out of the write-ahead log."""
Time = datetime | str | None


def read_audit_log(
    path: Path | str,
    since: Time = None,
    until: Time = None,
    task: str | None = None,
    client: str | None = None,
    *,
    text: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the entries of an audit log, by time.

    Each is a dict with `time` (UTC, ISO 8601), `request_id`, `client`, `run`, `fingerprint`, `task`, `input` (or
    `input_hmac` where only hashes are kept), `answer` and `seconds`. A log of any size takes little memory. Entries
    that are written after the call are left out.

    Args:
        path: The log.
        since: Only entries of this time and later: a datetime, a date or a time in ISO 8601, in UTC unless it says
            otherwise.
        until: Only entries before this time; a date is its first moment.
        task: Only entries of this task.
        client: Only entries of this client.
        text: Only entries with exactly this text, also where hashes are kept.

    Raises:
        DataError: There is no such log, or it is damaged.
        PalbertError: A time cannot be read.
    """
    path = Path(path)
    bounds = (_seconds(since, "since", -math.inf), _seconds(until, "until", math.inf))
    with _opened(path) as connection:  # so that errors come here, not at the first entry
        last = connection.execute("SELECT max(id) FROM entries").fetchone()[0] or 0
        wanted = None if text is None else {text, hash_of(text, hash_key(connection))}
    return _entries(path, bounds, last, {"task": task, "client": client}, wanted)


def _seconds(time: Time, name: str, default: float) -> float:
    """Return a time in seconds since 1970."""
    if time is None:
        return default
    try:
        given = read_time(time) if isinstance(time, str) else time
    except PalbertError as error:
        raise PalbertError(f"{name}: {error}") from None
    return (given if given.tzinfo else given.replace(tzinfo=timezone.utc)).timestamp()


def _entries(
    path: Path, bounds: tuple[float, float], last: int, equal: dict[str, str | None], wanted: set[str] | None
) -> Iterator[dict[str, Any]]:
    filters = {name: value for name, value in equal.items() if value is not None}
    query = (
        f"SELECT id, {', '.join(COLUMNS)} FROM entries WHERE (time, id) > (?, ?) AND time < ? AND id <= ?"
        f"{''.join(f' AND {name} = ?' for name in filters)} ORDER BY time, id LIMIT {SLICE}"
    )
    place: tuple[float, int] = (bounds[0], -1)
    with _opened(path) as connection:
        while True:
            rows = connection.execute(query, (*place, bounds[1], last, *filters.values())).fetchall()
            for number, *values in rows:
                entry = _entry(path, number, dict(zip(COLUMNS, values, strict=True)))
                if wanted is None or wanted & _given(entry):
                    yield entry
            if len(rows) < SLICE:
                return
            place = (rows[-1][1], rows[-1][0])


def _entry(path: Path, number: int, values: dict[str, Any]) -> dict[str, Any]:
    """Return a row as readers get it."""
    unused = "input" if values["input"] is None else "input_hmac"
    del values[unused]
    try:
        for name in values.keys() & {"input", "input_hmac", "answer"}:
            values[name] = json.loads(values[name])
        time = datetime.fromtimestamp(values["time"], timezone.utc)
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"{path}: row {number} is damaged: {error}.", hint=DAMAGED) from error
    values["time"] = time.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return values


def _given(entry: dict[str, Any]) -> set[str]:
    """Return the texts of an entry, or their hashes."""
    given: str | list[str] = entry["input"] if "input" in entry else entry["input_hmac"]
    return {given} if isinstance(given, str) else set(given)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a log for reading; raise DataError if it is not there, or is damaged."""
    if not path.is_file():
        raise DataError(f"{path}: no such audit log.", hint="palbert serve writes one, unless it has --audit off.")
    connection = None
    try:
        connection = _connect(path)
        check_format(connection, path)
        yield connection
    except sqlite3.Error as error:
        raise explained(path, error) from error
    finally:
        if connection is not None:
            connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database, also in a folder that cannot be written, if nothing in its write-ahead log is missed then."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True, timeout=10.0, isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection
    except sqlite3.Error as error:
        connection.close()
        if "unable to open" not in str(error) and "readonly" not in str(error):
            raise
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        hint = f"Copy it with {log.name} to a folder that can be written, and read that copy."
        raise RunFolderError(f"{path}: this audit log cannot be read where it is.", hint=hint)
    return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
