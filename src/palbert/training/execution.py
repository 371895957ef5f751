"""Execution: updates computed kernel by kernel, or replayed as CUDA graphs without Python in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.runtime.distributed import detect_host_calls
from palbert.runtime.graphs import Recorder, detect_waits
from palbert.runtime.replay import Replay, Work, run

PATIENCE = 3
"""Failures to record a step after which none is recorded; one may come from a kernel that was not loaded yet."""

Losses = dict[str, Tensor]
Update = Callable[[Sequence[PackedBatch]], Work]
"""The work of a step on the device; yields what the host has to decide, and returns each set's loss."""


class Execution(ABC):
    """How updates are computed."""

    @abstractmethod
    def __call__(self, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        """Do an update; return each set's loss."""

    def summary(self) -> str:
        """Return how steps were computed, for the log; empty if there is nothing to report."""
        return ""


class Eager(Execution):
    """Compute every step kernel by kernel."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        """Do an update; return each set's loss."""
        return run(update([batch.to(self.device) for batch in batches]))


class Graphs(Execution):
    """Replay steps of a kind that was seen before: the same sets, numbers of rows and padded sizes.

    The first step of a kind is computed and checked: one that makes the host wait for the device cannot be captured.
    """

    def __init__(self, device: torch.device) -> None:
        self.replay = Replay(StepRecorder(device), what="steps", patience=PATIENCE)

    def __call__(self, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        """Do an update; return each set's loss."""
        return self.replay(update, batches)

    @property
    def obstacle(self) -> str:
        """Why no more steps are captured; empty if they are."""
        return self.replay.obstacle

    def summary(self) -> str:
        """Return how steps were computed, for the log."""
        replay = self.replay
        if self.obstacle:
            return f"{replay.computed:,} steps computed without CUDA graphs: {self.obstacle}"
        share = f"{replay.replayed:,} of {replay.replayed + replay.computed:,} steps"
        return f"{share} replayed from {replay.graphs} CUDA graphs, captured in {replay.seconds:.1f} s"


class StepRecorder(Recorder):
    """Record whole steps, which take most of the device's memory."""

    @contextmanager
    def detecting_obstacles(self) -> Iterator[list[str]]:
        """List the lines of a step that make the host wait for the device, and its calls of other processes."""
        found: list[str] = []
        with detect_waits() as waits, detect_host_calls() as calls:
            yield found
        found += [f"{line} makes the host wait for the device" for line in waits]
        found += ["a step communicates with other processes by the host" for _ in calls]

    def prepare(self) -> None:
        """Wait for the steps before."""
        torch.cuda.synchronize(self.device)
        super().prepare()

    def finish(self) -> None:
        """Free the memory that the computed step worked in: graphs have their own."""
        torch.cuda.empty_cache()
