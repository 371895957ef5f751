"""API keys: a file of names and hashes, who a secret belongs to, and how keys are added and removed."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from palbert.errors import DataError, PalbertError, did_you_mean
from palbert.runtime import locks
from palbert.runtime.durable import make_folder
from palbert.runtime.files import disk_errors
from palbert.runtime.json_objects import read_object
from palbert.runtime.private import MODE, private_file
from palbert.runtime.times import read_time

FORMAT = 1
PREFIX = "pal_"
"""What every secret begins with, so that people and scanners of leaked secrets recognise one."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
HASH = re.compile(r"[0-9a-f]{64}")
LONGEST_SECRET = 200
CHECK_EVERY = 1.0
"""Seconds between two looks at whether the file has changed."""
REPAIR = "Repair the file, or move it away and add the keys again: palbert serve key add NAME"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """An entry of the file: everything about a key except its secret."""

    name: str
    sha256: str
    created: str
    expires: str | None = None

    @property
    def end(self) -> float:
        """When the key ends, in seconds since 1970; infinity if it does not."""
        return math.inf if self.expires is None else read_time(self.expires).timestamp()


class Keys:
    """Say who a secret belongs to, by a file that may change at any time.

    A file that is damaged, removed or writable by everybody after the start is logged as an error, and the former
    keys stay. To let nobody in, remove the keys from it. Any thread may ask.

    Args:
        path: The file.
        clock: Seconds that never go back, which say when to look at the file again.
        now: Seconds since 1970, by which keys expire.

    Raises:
        DataError: The file is not there, or is not a file of keys.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._clock, self._now = clock, now
        self._checked = clock()
        self._version = _version(path)
        self._known = _index(read_keys(path))
        _warn_of_readers(path)

    def identify(self, secret: str) -> str | None:
        """Return the name of the key with this secret; None if there is none, or it has expired."""
        if self._clock() - self._checked >= CHECK_EVERY:
            self._look_again()
        if len(secret) > LONGEST_SECRET:
            return None
        # How long the look-up takes depends on the hash, which nobody can steer, and not on the secret.
        found = self._known.get(_hash(secret))
        return found[0] if found and self._now() < found[1] else None

    def __len__(self) -> int:
        return len(self._known)

    def _look_again(self) -> None:
        """Read the file if it is not the one that was read last."""
        self._checked = self._clock()
        version = _version(self.path)
        if version == self._version:
            return
        self._version = version  # also of a damaged file, about which one error is enough
        try:
            self._known = _index(read_keys(self.path))
        except PalbertError as error:
            logger.error("%s The %d keys read before stay valid.", error, len(self._known))
            return
        _warn_of_readers(self.path)
        logger.info("%s: read again, %d keys", self.path, len(self._known))


def default_path() -> Path:
    """Return where keys are kept: $PALBERT_KEYS, or palbert/keys.json in the user's folder of settings."""
    if chosen := os.environ.get("PALBERT_KEYS"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "palbert" / "keys.json"


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file; raise DataError if it is not there, is damaged, or is writable by everybody."""
    if not path.is_file():
        raise DataError(f"{path}: no such file of API keys.", hint="Add a key: palbert serve key add NAME")
    if os.name == "posix" and path.stat().st_mode & stat.S_IWOTH:
        raise DataError(f"{path}: everybody may write to this file, and so add keys.", hint=f"chmod 600 {path}")
    values = read_object(path, raises=DataError, hint=REPAIR)
    if values.get("format") != FORMAT or not isinstance(values.get("keys"), list):
        raise DataError(f"{path}: expected a file of API keys of format {FORMAT}.", hint=REPAIR)
    keys = [_key(entry, f"{path}: key {number}") for number, entry in enumerate(values["keys"], start=1)]
    for what, found in (("name", [key.name for key in keys]), ("secret", [key.sha256 for key in keys])):
        if len(set(found)) < len(found):
            raise DataError(f"{path}: two keys have the same {what}.", hint=REPAIR)
    return keys


def add_key(path: Path, name: str, *, days: int | None = None) -> str:
    """Add a key and return its secret, which is kept nowhere.

    Args:
        path: The file of keys, which is made if there is none.
        name: Who the key is for; letters, digits and ._@-.
        days: After how many days the key expires. None: never.
    """
    if not NAME.fullmatch(name):
        raise PalbertError(f"A key's name has up to 64 letters, digits and . _ @ -, found {name!r}.")
    created = datetime.now(timezone.utc).replace(microsecond=0)
    try:
        expires = None if days is None else (created + timedelta(days=days)).isoformat()
    except OverflowError:
        hint = "Leave out --days for a key without end."
        raise PalbertError(f"A key cannot expire in {days:,} days.", hint=hint) from None
    # 32 random bytes cannot be guessed, so one SHA-256 protects them as well as a slow hash for passwords would.
    secret = PREFIX + secrets.token_urlsafe(32)
    with _locked(path) as target:
        keys = read_keys(target) if target.exists() else []
        if name in {key.name for key in keys}:
            raise PalbertError(
                f"{path}: there is a key named '{name}'.",
                hint=f"Choose another name, or remove that key first: palbert serve key remove {name}",
            )
        _write(target, [*keys, Key(name, _hash(secret).hex(), created.isoformat(), expires)])
    return secret


def remove_key(path: Path, name: str) -> None:
    """Remove a key; servers notice within about a second."""
    with _locked(path) as target:
        keys = read_keys(target)
        kept = [key for key in keys if key.name != name]
        if len(kept) == len(keys):
            raise PalbertError(f"{path}: no key named '{name}'.", hint=did_you_mean(name, [key.name for key in keys]))
        _write(target, kept)


def _write(path: Path, keys: list[Key]) -> None:
    with private_file(path) as stream:
        json.dump({"format": FORMAT, "keys": [asdict(key) for key in keys]}, stream, indent=2)
        stream.write("\n")


@contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """Let one process at a time change the file; yield where it is, behind symbolic links."""
    target = Path(os.path.realpath(path))
    if not locks.AVAILABLE:
        yield target
        return
    with disk_errors(path):
        make_folder(target.parent)
        # A file of its own, since the file of keys is replaced; it stays, since another process may wait for it.
        opened = os.open(target.with_name(f"{target.name}.lock"), os.O_RDWR | os.O_CREAT, MODE)
    try:
        locks.take_lock(opened, wait=True)
        yield target
    finally:
        os.close(opened)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _index(keys: list[Key]) -> dict[bytes, tuple[str, float]]:
    """Return name and end of every key by its hash."""
    return {bytes.fromhex(key.sha256): (key.name, key.end) for key in keys}


def _version(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced, written or made readable; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


def _warn_of_readers(path: Path) -> None:
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH):
        logger.warning("%s: other users may read or write the API keys' names and hashes; chmod 600 %s", path, path)


def _key(entry: Any, where: str) -> Key:
    """Check one entry of the file."""
    if not isinstance(entry, dict):
        raise DataError(f"{where}: expected a JSON object, found a {type(entry).__name__}.", hint=REPAIR)
    key = Key(*(entry.get(field) for field in ("name", "sha256", "created", "expires")))  # type: ignore[arg-type]
    for field, pattern, wanted in (("name", NAME, "a name"), ("sha256", HASH, "64 hexadecimal digits")):
        value = getattr(key, field)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise DataError(f"{where}: expected {wanted} as '{field}'.", hint=REPAIR)
    for field, value in (("created", key.created), ("expires", key.expires)):
        try:
            if value is not None or field == "created":
                read_time(value)
        except PalbertError:
            wanted = "a time such as 2026-01-31T12:00:00+00:00"
            raise DataError(f"{where}: expected {wanted} as '{field}'.", hint=REPAIR) from None
    return key
