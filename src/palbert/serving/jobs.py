"""Jobs: the rows of a request that are packed alike, on their way through the queue to their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.data.ragged import Ragged
from palbert.inference.evaluator import Packing
from palbert.inference.forward import Forward
from palbert.tasks.spec import Task


@dataclass(frozen=True, eq=False)
class Lane:
    """Rows that can be computed next to each other as one part of a batch.

    Either tasks see these rows in the same way, or the rows become vectors by one pooling.
    """

    packing: Packing
    columns: int
    """Texts per row."""
    tasks: tuple[Task, ...] = ()
    """The tasks that can be asked; none for vectors."""
    vectors: Forward | None = None
    """What computes vectors."""


@dataclass(eq=False)
class Job:
    """Rows of one request, all of one lane."""

    call: Call
    lane: Lane
    columns: Sequence[Sequence[str]]
    """The texts by column."""
    rows: tuple[int, ...]
    """Where each row stands in the request."""
    tasks: tuple[Task, ...] = ()
    """The tasks that are asked about all of the rows."""

    tokens: tuple[Ragged, ...] = ()
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Tokens of each row as it is packed."""
    cut: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Which rows lose tokens."""
    order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The rows, longest first: the order in which they are computed."""
    ends: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Cumulative tokens in that order."""
    taken: int = 0
    """How many rows have gone into batches."""
    found: dict[str, list[tuple[NDArray[np.int64], Tensor]]] = field(default_factory=dict)
    """Outputs by task, or vectors under "", with the rows that they belong to."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def left(self) -> int:
        """The rows that wait to be computed."""
        return len(self.rows) - self.taken

    def measure(self, tokens: tuple[Ragged, ...], whole: NDArray[np.int64], max_length: int) -> None:
        """Note the tokens of the rows, and the lengths of their whole sequences, (sequences per row, rows)."""
        self.tokens = tokens
        self.lengths = np.minimum(whole, max_length).sum(axis=0)
        self.cut = np.any(whole > max_length, axis=0)
        self.order = np.argsort(-self.lengths, kind="stable")
        self.ends = np.cumsum(self.lengths[self.order])

    def take(self, tokens: int) -> Piece | None:
        """Take the next rows that together have at most so many tokens; None if not even one has."""
        before = int(self.ends[self.taken - 1]) if self.taken else 0
        stop = int(np.searchsorted(self.ends, before + tokens, side="right"))
        if stop <= self.taken:
            return None
        return self._take_to(stop)

    def take_one(self) -> Piece:
        """Take the next row, whatever its length."""
        return self._take_to(self.taken + 1)

    def _take_to(self, stop: int) -> Piece:
        rows = self.order[self.taken : stop]
        self.taken = stop
        return Piece(self, rows, int(self.lengths[rows].sum()))

    def keep(self, name: str, rows: NDArray[np.int64], outputs: Tensor) -> None:
        """Keep what was computed for some of the rows."""
        self.found.setdefault(name, []).append((rows, outputs))

    def outputs(self, name: str) -> Tensor:
        """Return what was computed for all rows, in their order."""
        parts = self.found[name]
        if len(parts) == 1 and len(parts[0][0]) == 1:
            return parts[0][1]
        rows = torch.from_numpy(np.concatenate([rows for rows, _ in parts]))
        together = torch.cat([outputs for _, outputs in parts])
        return torch.empty_like(together).index_copy_(0, rows, together)


@dataclass(frozen=True)
class Piece:
    """Some rows of a job, in one batch."""

    job: Job
    rows: NDArray[np.int64]
    tokens: int


@dataclass(eq=False)
class Call:
    """A request that waits for its answers."""

    model: Any
    """The loaded run that answers, a `ServedModel`."""
    client: str
    arrived: float
    """When it came, by the monotonic clock."""
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop
    jobs: list[Job] = field(default_factory=list)
    left: int = 0
    """Rows, over all jobs, that have not been computed."""
    min_confidence: float | None = None
    normalise: bool = False
    is_cancelled: bool = False
    """Whether nobody waits for the answers any more."""
    answers: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    """Answers by row and task."""
    vectors: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    """Vectors by row."""
    tokens: int = 0

    @property
    def rows(self) -> int:
        """Rows over all jobs."""
        return sum(len(job) for job in self.jobs)

    def add(self, lane: Lane, columns: Sequence[Sequence[str]], rows: Sequence[int], tasks: tuple[Task, ...]) -> None:
        """Add rows of one lane."""
        self.jobs.append(Job(self, lane, columns, tuple(rows), tasks))
        self.left += len(rows)


def finish(calls: Sequence[tuple[Call, Exception | None]]) -> None:
    """Wake up what waits for calls, from any thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Call, Exception | None]]] = {}
    for call, error in calls:
        by_loop.setdefault(call.loop, []).append((call, error))
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits any more
            loop.call_soon_threadsafe(_wake, own)


def _wake(calls: Sequence[tuple[Call, Exception | None]]) -> None:
    for call, error in calls:
        if call.done.done():
            continue
        if error is None:
            call.done.set_result(None)
        else:
            call.done.set_exception(error)
