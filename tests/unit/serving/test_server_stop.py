"""Stopping a server that has not begun to serve."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from palbert.serving import server
from palbert.serving.settings import Settings


def test_sigterm_while_models_are_loaded_ends_the_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def load(settings: Settings) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("Loading continued after SIGTERM.")

    former = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(server, "build_service", load)
    with pytest.raises(KeyboardInterrupt):
        server.run_server(Settings(runs=(("mine", tmp_path),), port=0))
    assert signal.getsignal(signal.SIGTERM) is former
