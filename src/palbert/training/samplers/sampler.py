"""Sampler: what all samplers are, a pure function of sizes, epoch and seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import ceil

Plan = list[tuple[str, ...]]


@dataclass(frozen=True)
class Settings:
    """What every sampler is told of a run."""

    rows: Mapping[str, int]
    """Training rows of each set."""
    batch_sizes: Mapping[str, int]
    """Rows that one batch of each set takes."""
    tasks: Mapping[str, str]
    """The task of each set; a task's own set has the task's name, extra ones have names of their own."""
    epochs: int
    """Length of the run."""
    steps: int | None
    """Steps per epoch; None for one pass, as each sampler understands it."""
    seed: int
    """Starts the draws."""


class Sampler(ABC):
    """A pure function of sizes, epoch and seed: the sets of every step of an epoch."""

    def __init__(self, settings: Settings) -> None:
        self.rows = dict(settings.rows)
        self.batches = {name: ceil(rows / settings.batch_sizes[name]) for name, rows in settings.rows.items()}
        self.epochs = settings.epochs
        self.steps = settings.steps or self.one_pass()
        self.seed = settings.seed

    def one_pass(self) -> int:
        """Return the steps of an epoch when the recipe does not say."""
        return sum(self.batches.values())

    def length(self, epoch: int) -> int:
        """Return the steps of an epoch, counted from 1; most samplers have epochs of one length."""
        return self.steps

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """How many steps of the run are done at the end of each epoch."""
        return tuple(accumulate(self.length(epoch) for epoch in range(1, self.epochs + 1)))

    @abstractmethod
    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each task is expected in an epoch, counted from 1."""

    @abstractmethod
    def epoch(self, epoch: int) -> Plan:
        """Return the tasks of every step of an epoch, counted from 1."""


class Fixed(Sampler):
    """A sampler that leaves nothing to chance: what is planned is what comes."""

    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each task comes in an epoch."""
        counts = Counter(task for step in self.epoch(epoch) for task in step)
        return {task: float(counts[task]) for task in self.rows}
