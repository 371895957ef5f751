"""Locks: one holder at a time, until it closes the file, and none where a file system has no locks."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from palbert.runtime import locks

pytestmark = pytest.mark.skipif(not locks.AVAILABLE, reason="needs locks of POSIX")


@pytest.fixture
def handles(tmp_path: Path) -> Iterator[list[int]]:
    """Open a folder twice, as two processes would."""
    opened = [os.open(tmp_path, os.O_RDONLY) for _ in range(2)]
    yield opened
    for each in opened:
        os.close(each)


def test_a_second_holder_is_refused(handles: list[int]) -> None:
    assert locks.take_lock(handles[0])
    with pytest.raises(BlockingIOError):
        locks.take_lock(handles[1])


def test_a_second_holder_that_waits_gets_the_lock_when_the_first_closes(handles: list[int]) -> None:
    locks.take_lock(handles[0])
    taken = []
    waiting = threading.Thread(target=lambda opened=handles[1]: taken.append(locks.take_lock(opened, wait=True)))
    waiting.start()
    waiting.join(0.1)
    assert taken == []
    os.close(handles.pop(0))
    waiting.join(10)
    assert taken == [True]


def test_a_file_system_without_locks_is_reported(handles: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(opened: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert locks.take_lock(handles[0]) is False
