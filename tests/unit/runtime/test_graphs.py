"""Recorder: graphs give what was recorded; lines that wait for the device are found."""

from __future__ import annotations

import gc
import warnings
from unittest.mock import MagicMock

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


class FakeGenerator:
    """A generator with a number as its state."""

    def __init__(self, drawn: int = 0) -> None:
        self.drawn = drawn

    def clone_state(self) -> FakeGenerator:
        return FakeGenerator(self.drawn)

    def graphsafe_set_state(self, state: FakeGenerator) -> None:
        self.drawn = state.drawn


def test_work_that_starts_again_after_its_second_graph_failed_draws_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = FakeGenerator(drawn=3)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", MagicMock)
    monkeypatch.setattr(graphs, "_stream", lambda device, thread: MagicMock(device=torch.device("cuda", 0)))
    monkeypatch.setattr(Recorder, "on_recording_stream", lambda self, work: work())
    recorder = Recorder(torch.device("cuda"))

    def draw() -> None:
        generator.drawn += 1

    def fail() -> None:
        raise RuntimeError

    recorder.prepare()
    recorder.record(draw)
    with pytest.raises(RuntimeError):
        recorder.record(fail)
    recorder.recover()
    assert generator.drawn == 3


@cuda
def test_a_graph_repeats_what_was_recorded() -> None:
    recorder = Recorder(torch.device("cuda"))
    given = torch.ones(3, device="cuda")
    recorder.on_recording_stream(lambda: given * 2)
    graph, found = recorder.record(lambda: given * 2)
    given.fill_(5)
    graph.replay()
    assert found.tolist() == [10, 10, 10]
