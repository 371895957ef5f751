"""Replay: work that is computed the first time, recorded the second, and replayed from then on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from palbert.runtime.graphs import Graph, Recorder

log = logging.getLogger(__name__)

MOST_GRAPHS = 64
"""Maximum number of kinds of work to record; each takes a little memory and time."""

Outputs = dict[str, Tensor]
Decision = Callable[[], None]
"""Something that the host does between two segments of work on the device; it may wait for the device."""
Work = Generator[Decision, None, Outputs]
"""Work on the device that yields what the host has to decide in between, and returns its outputs."""


class Batch(Protocol):
    """What work is done on."""

    @property
    def kind(self) -> Hashable:
        """Equal for batches on which the same kernels are run."""
        ...

    def to(self, device: torch.device) -> Any:
        """Copy to a device."""
        ...

    def copy_(self, other: Any) -> None:
        """Copy the values of a batch of the same kind, in place."""
        ...


BatchType = TypeVar("BatchType", bound=Batch)


@dataclass
class Recording:
    """Recorded work: where its inputs go, its graphs with the decisions after them, and where its outputs are."""

    batches: Sequence[Batch]
    segments: list[tuple[Graph, Decision | None]] = field(default_factory=list)
    outputs: Outputs = field(default_factory=dict)

    def replay(self) -> None:
        """Run all graphs, and the decisions between them."""
        for graph, decision in self.segments:
            graph.replay()
            if decision is not None:
                decision()

    def copied_outputs(self) -> Outputs:
        """Return the outputs of this replay; the next one overwrites its own."""
        return {name: output.clone() for name, output in self.outputs.items()}


class Replay:
    """Replay work of a kind that was seen before: batches of the same shapes, with the same Python numbers.

    The first work of a kind is computed. The second is recorded, which computes nothing, and then replayed, as is all
    later work. So nothing is computed twice, and the results are the same as without recording. Random numbers differ
    from replay to replay: graphs read the generator's state from the device, and the generator advances as usual.

    Args:
        recorder: Records graphs.
        what: What messages call the work, in the plural.
        most: Maximum number of kinds to record; others are computed.
        patience: Number of failed recordings after which nothing more is recorded.
    """

    def __init__(self, recorder: Recorder, *, what: str, most: int = MOST_GRAPHS, patience: int = 1) -> None:
        self.recorder = recorder
        self.what = what
        self.most = most
        self.patience = patience
        self.recordings: dict[Hashable, Recording | None] = {}  # None: computed once
        self.obstacle = ""  # why nothing more is recorded
        self.failures = 0
        self.replayed = self.computed = 0
        self.seconds = 0.0  # spent on recording

    def __call__(self, function: Callable[[list[BatchType]], Work], batches: Sequence[BatchType]) -> Outputs:
        """Do the work; return its outputs.

        Args:
            function: Starts the work on some batches. The kind covers only the batches, so each function needs its own
                Replay.
            batches: The batches, on any device.
        """
        kind = tuple(batch.kind for batch in batches)
        recording = self.recordings.get(kind)
        if recording is not None:
            for own, batch in zip(recording.batches, batches, strict=True):
                own.copy_(batch)
            recording.replay()
        elif kind in self.recordings and self._records:
            recording = self._record(kind, function, batches)
        if recording is None:
            return self._compute(kind, function, batches)
        self.replayed += 1
        return recording.copied_outputs()

    @property
    def graphs(self) -> int:
        """Kinds of work that are recorded now."""
        return sum(recording is not None for recording in self.recordings.values())

    @property
    def _records(self) -> bool:
        """Whether more kinds may be recorded."""
        return not self.obstacle and self.graphs < self.most

    def _compute(
        self, kind: Hashable, function: Callable[[list[BatchType]], Work], batches: Sequence[BatchType]
    ) -> Outputs:
        """Compute the work; if it may be recorded later, do so on the recording stream and check that it can be."""
        self.computed += 1
        device = self.recorder.device
        if not self._records:
            return run(function([batch.to(device) for batch in batches]))
        self.recordings[kind] = None
        return self.recorder.on_recording_stream(
            lambda: self._compute_first(function([batch.to(device) for batch in batches]))
        )

    def _compute_first(self, work: Work) -> Outputs:
        """Compute the work; give up if it does what cannot be recorded, such as waiting for the device."""
        while True:
            with self.recorder.detecting_obstacles() as obstacles:
                decision, outputs = advance(work)
            for obstacle in obstacles:
                self._give_up(obstacle)
            if decision is None:
                return outputs
            decision()

    def _record(
        self, kind: Hashable, function: Callable[[list[BatchType]], Work], batches: Sequence[BatchType]
    ) -> Recording | None:
        """Record the work, and replay it segment by segment; None if that fails."""
        start = time.perf_counter()
        own = [batch.to(self.recorder.device) for batch in batches]
        self.recorder.prepare()
        recording, work = Recording(own), function(own)
        decision: Decision | None = None
        try:
            while decision is not None or not recording.segments:
                graph, (decision, recording.outputs) = self.recorder.record(lambda: advance(work))
                recording.segments.append((graph, decision))
                graph.replay()
                if decision is not None:
                    decision()
        except RuntimeError as error:
            self._fail(error)
            return None
        self.recorder.finish()
        self.recordings[kind] = recording
        self.seconds += time.perf_counter() - start
        return recording

    def _fail(self, error: RuntimeError) -> None:
        self.failures += 1
        if self.failures == self.patience:
            self._give_up((str(error).splitlines() or [type(error).__name__])[0])
        self.recordings.clear()  # graphs belong to a generator's state that a failed recording leaves unusable
        self.recorder.recover()

    def _give_up(self, obstacle: str) -> None:
        if not self.obstacle:
            self.obstacle = obstacle
            log.info("%s are not captured as CUDA graphs: %s", self.what, obstacle)


def run(work: Work) -> Outputs:
    """Compute all of the work, with its decisions."""
    while True:
        decision, outputs = advance(work)
        if decision is None:
            return outputs
        decision()


def advance(work: Work) -> tuple[Decision | None, Outputs]:
    """Compute up to the next decision, or to the end; return the decision, or None and the outputs."""
    try:
        return next(work), {}
    except StopIteration as end:
        outputs: Outputs = end.value
        return None, outputs
