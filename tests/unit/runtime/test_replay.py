"""Replay without a GPU: the same outputs as computing, and when work is computed, recorded or replayed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.runtime.replay import Replay, Work, run

Kernel = Callable[[], object]


class Device:
    """Run kernels immediately, or add them to the graph that is being recorded."""

    def __init__(self) -> None:
        self.graph: FakeGraph | None = None
        self.kernels = 0

    def launch(self, kernel: Kernel) -> None:
        if self.graph is not None:
            self.graph.kernels.append(kernel)
            return
        self.kernels += 1
        kernel()


class FakeGraph:
    """Kernels that are run again."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []

    def replay(self) -> None:
        for kernel in self.kernels:
            kernel()


class FakeRecorder:
    """Record on the fake device, and note the requests."""

    def __init__(self, device: Device) -> None:
        self.fake = device
        self.device = torch.device("cpu")
        self.calls: list[str] = []
        self.fails: list[str] = []  # messages of the recordings to come
        self.obstacles: list[str] = []

    def on_recording_stream(self, work: Callable[[], Any]) -> Any:
        self.calls.append("on_recording_stream")
        return work()

    @contextmanager
    def detecting_obstacles(self) -> Iterator[list[str]]:
        self.calls.append("detecting_obstacles")
        found: list[str] = []
        yield found
        found += self.obstacles
        self.calls.append("detected")

    def prepare(self) -> None:
        self.calls.append("prepare")

    def record(self, work: Callable[[], Any]) -> tuple[FakeGraph, Any]:
        self.calls.append("record")
        self.fake.graph = graph = FakeGraph()
        try:
            found = work()
        finally:
            self.fake.graph = None
        if self.fails:
            raise RuntimeError(self.fails.pop(0))
        return graph, found

    def finish(self) -> None:
        self.calls.append("finish")

    def recover(self) -> None:
        self.calls.append("recover")


class Numbers:
    """A batch."""

    def __init__(self, *values: float) -> None:
        self.values = torch.tensor(values)

    @property
    def kind(self) -> int:
        return len(self.values)

    def to(self, device: torch.device) -> Numbers:
        return Numbers(*self.values.tolist())

    def copy_(self, other: Numbers) -> None:
        self.values.copy_(other.values)


class Job:
    """Double numbers, then add the number of decisions that the host has made."""

    def __init__(self, *, decides: bool = True, **settings: Any) -> None:
        self.device = Device()
        self.recorder = FakeRecorder(self.device)
        self.decides = decides
        self.decided = 0
        self.replay = Replay(self.recorder, what="jobs", **settings)  # type: ignore[arg-type]

    def work(self, batches: list[Numbers]) -> Work:
        [batch] = batches
        total, offset = torch.zeros(batch.kind), torch.zeros(())
        self.device.launch(lambda: total.copy_(2 * batch.values))
        if self.decides:
            yield lambda: self.decide(offset)
        self.device.launch(lambda: total.add_(offset))
        return {"total": total}

    def decide(self, offset: Tensor) -> None:
        assert self.device.graph is None, "a decision was recorded"
        self.recorder.calls.append("decide")
        self.decided += 1
        offset.fill_(self.decided)

    def __call__(self, *values: float) -> list[float]:
        self.recorder.calls.clear()
        return self.replay(self.work, [Numbers(*values)])["total"].tolist()


def test_running_the_work_runs_its_decisions_in_order() -> None:
    job = Job()
    assert run(job.work([Numbers(1, 2)]))["total"].tolist() == [3, 5]
    assert job.decided == 1


@pytest.mark.parametrize("decides", [False, True])
def test_every_call_has_the_outputs_of_computing(decides: bool) -> None:
    job = Job(decides=decides)
    for number in range(1, 6):
        offset = number if decides else 0
        assert job(number, 10) == [2 * number + offset, 20 + offset]
    assert (job.replay.computed, job.replay.replayed, job.replay.graphs) == (1, 4, 1)


def test_the_first_call_is_computed_the_second_recorded_and_the_others_replayed() -> None:
    job = Job()
    job(1)
    assert job.recorder.calls == [
        "on_recording_stream",
        "detecting_obstacles",
        "detected",
        "decide",
        "detecting_obstacles",
        "detected",
    ]
    job(2)
    assert job.recorder.calls == ["prepare", "record", "decide", "record", "finish"]
    job(3)
    assert job.recorder.calls == ["decide"]
    assert job.device.kernels == 2, "only the first is computed kernel by kernel"


def test_work_without_decisions_is_one_graph() -> None:
    job = Job(decides=False)
    job(1), job(2)
    assert job.recorder.calls == ["prepare", "record", "finish"]


def test_the_next_replay_does_not_overwrite_earlier_outputs() -> None:
    job = Job(decides=False)
    job(1)
    found = [job.replay(job.work, [Numbers(value)])["total"] for value in (2.0, 3.0, 4.0)]
    assert [each.tolist() for each in found] == [[4], [6], [8]]


def test_each_kind_is_recorded_separately() -> None:
    job = Job(decides=False)
    job(1), job(1, 2)
    assert job.replay.graphs == 0
    job(1), job(1, 2)
    assert (job.replay.graphs, job.replay.computed) == (2, 2)


def test_kinds_above_the_limit_are_computed_as_usual() -> None:
    job = Job(decides=False, most=1)
    job(1), job(1, 2), job(1)
    assert job(3, 4) == [6, 8]
    assert job.recorder.calls == [], "neither on the recording stream nor checked: it will not be recorded"
    assert job(5) == [10]
    assert (job.replay.graphs, job.replay.computed, job.replay.replayed) == (1, 3, 2)


def test_work_that_waits_for_the_device_is_never_recorded_and_the_log_says_where(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = Job()
    job.recorder.obstacles = [f"{line} makes the host wait for the device" for line in ("term.py:7", "other.py:9")]
    with caplog.at_level(logging.INFO):
        assert [job(1) for _ in range(3)] == [[3], [4], [5]]
    assert job.replay.obstacle == "term.py:7 makes the host wait for the device"
    assert (job.replay.computed, job.replay.replayed) == (3, 0)
    assert [record.message for record in caplog.records] == [
        "jobs are not captured as CUDA graphs: term.py:7 makes the host wait for the device"
    ]


def test_existing_recordings_are_still_replayed_after_other_work_has_waited() -> None:
    job = Job(decides=False)
    job(1), job(2)
    job.recorder.obstacles = ["term.py:7 makes the host wait for the device"]
    job(1, 2), job(3)
    assert (job.replay.computed, job.replay.replayed) == (2, 2)


def test_after_a_failed_recording_the_work_is_computed() -> None:
    job = Job(patience=3)
    job(1)
    job.recorder.fails = ["out of luck"]
    assert job(2) == [4 + 2]
    assert job.recorder.calls[:4] == ["prepare", "record", "recover", "on_recording_stream"]
    assert "record" not in job.recorder.calls[4:]
    assert job.replay.obstacle == ""
    assert job(3) == [6 + 3]
    assert (job.replay.computed, job.replay.replayed, job.replay.graphs) == (2, 1, 1)


def test_a_failed_recording_drops_all_others() -> None:
    job = Job(decides=False, patience=3)
    job(1), job(1), job(1, 2)
    job.recorder.fails = ["out of luck"]
    job(1, 2)
    assert job.replay.graphs == 0
    assert job(4) == [8], "computed again"


@pytest.mark.parametrize("patience", [1, 3])
def test_recording_stops_after_too_many_failures(patience: int, caplog: pytest.LogCaptureFixture) -> None:
    job = Job(decides=False, patience=patience)
    job.recorder.fails = [f"failure {number}\nand a trace" for number in range(1, 9)]
    with caplog.at_level(logging.INFO):
        assert [job(value) for value in range(10)] == [[2 * value] for value in range(10)]
    assert job.replay.failures == patience
    assert job.replay.obstacle == f"failure {patience}"
    assert [record.message for record in caplog.records] == [
        f"jobs are not captured as CUDA graphs: failure {patience}"
    ]
    assert (job.replay.computed, job.replay.replayed) == (10, 0)


def test_errors_of_the_work_itself_are_not_hidden() -> None:
    job = Job()

    def broken(batches: list[Numbers]) -> Work:
        yield from ()
        raise ZeroDivisionError

    job.replay.recordings[(1,)] = None
    with pytest.raises(ZeroDivisionError):
        job.replay(broken, [Numbers(1)])
