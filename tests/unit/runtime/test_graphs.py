"""Recorder: graphs give what was recorded; lines that wait for the device are found."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch

from palbert.runtime import graphs
from palbert.runtime.graphs import SYNCHRONISES, Recorder, detect_waits

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the sync debug modes that are set, without a device."""
    found: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", found.append)
    return found


def test_lines_that_wait_for_the_device_are_listed(modes: list[str]) -> None:
    with detect_waits() as waits:
        warnings.warn_explicit(SYNCHRONISES, UserWarning, "/somewhere/term.py", 7)
        assert waits == [] and modes == ["warn"]
    assert waits == ["term.py:7"]
    assert modes == ["warn", "default"]


def test_other_warnings_are_still_given(modes: list[str]) -> None:
    with pytest.warns(UserWarning, match="something else"), detect_waits() as waits:
        warnings.warn("something else", stacklevel=1)
    assert waits == []


def test_the_debug_mode_ends_with_an_error(modes: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), detect_waits():
        raise ZeroDivisionError
    assert modes == ["warn", "default"]


def test_garbage_is_not_collected_while_recording() -> None:
    with graphs._without_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


@cuda
def test_a_graph_repeats_what_was_recorded() -> None:
    recorder = Recorder(torch.device("cuda"))
    given = torch.ones(3, device="cuda")
    recorder.on_recording_stream(lambda: given * 2)
    graph, found = recorder.record(lambda: given * 2)
    given.fill_(5)
    graph.replay()
    assert found.tolist() == [10, 10, 10]
