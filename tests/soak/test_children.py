"""Children of the soak: what hangs is told from what only waits for a busy machine."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.soak.children import Child, Ended

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not Path("/proc/self/stat").is_file(), reason="forks, and reads /proc"
)


def compute(seconds: float) -> float:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds


def wait_for(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_a_child_that_computes_too_long_hangs(tmp_path: Path) -> None:
    started = time.monotonic()
    ended = Child(lambda: compute(600), tmp_path / "child").wait(slowest=0.3)
    assert ended.code == -signal.SIGALRM
    assert time.monotonic() - started < 60


def test_a_child_that_waits_does_not_hang_before_the_clock_says_so(tmp_path: Path) -> None:
    assert Child(lambda: wait_for(1), tmp_path / "child").wait(slowest=0.5) == Ended(0, 1, "")
    assert Child(lambda: wait_for(600), tmp_path / "child").wait(longest=0.3).code == -signal.SIGALRM


def test_a_child_that_ends_gives_its_result_or_its_exit_code(tmp_path: Path) -> None:
    assert Child(lambda: compute(0.01), tmp_path / "child").wait() == Ended(0, 0.01, "")
    assert Child(lambda: 1 / 0, tmp_path / "child").wait().code == 1
    assert Child(lambda: os.kill(os.getpid(), signal.SIGKILL), tmp_path / "child").wait().code == -signal.SIGKILL
