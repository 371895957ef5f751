"""SIGTERM ends work like Ctrl-C."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from palbert.runtime.files import new_file
from palbert.runtime.stop_signals import terminate_as_interrupt


def test_sigterm_leaves_nothing_half_written_and_the_former_handler_returns(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminate_as_interrupt(), new_file(tmp_path / "out.csv") as temporary:
        temporary.write_text("half")
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert list(tmp_path.iterdir()) == []
