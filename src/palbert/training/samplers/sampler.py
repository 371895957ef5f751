"""Sampler: the base class of all samplers, a pure function of sizes, epoch and seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import ceil

Plan = list[tuple[str, ...]]
"""The sets of every step of an epoch."""


@dataclass(frozen=True)
class Settings:
    """What a sampler knows about a run."""

    rows: Mapping[str, int]
    """Training rows of each set."""
    batch_sizes: Mapping[str, int]
    """Rows that one batch of each set takes."""
    tasks: Mapping[str, str]
    """The task of each set; a task's own set has the task's name, extra ones have names of their own."""
    epochs: int
    """Epochs of the run."""
    steps: int | None
    """Steps per epoch; None for one pass over the data, as each sampler defines it."""
    seed: int
    """The seed of random draws."""


class Sampler(ABC):
    """A pure function of sizes, epoch and seed: the sets of every step of an epoch."""

    def __init__(self, settings: Settings) -> None:
        self.rows = dict(settings.rows)
        self.batches = {name: ceil(rows / settings.batch_sizes[name]) for name, rows in settings.rows.items()}
        self.epochs = settings.epochs
        self.seed = settings.seed
        self._steps = settings.steps

    @cached_property
    def steps(self) -> int:
        """Steps of an epoch: those that the recipe sets, or one pass."""
        return self._steps or self.one_pass()

    def one_pass(self) -> int:
        """Return the steps of an epoch if the recipe does not set them."""
        return sum(self.batches.values())

    def length(self, epoch: int) -> int:
        """Return the steps of an epoch, counted from 1; the same for all epochs by default."""
        return self.steps

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Steps of the run up to the end of each epoch."""
        return tuple(accumulate(self.length(epoch) for epoch in range(1, self.epochs + 1)))

    @abstractmethod
    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each set is expected in an epoch, counted from 1."""

    @abstractmethod
    def epoch(self, epoch: int) -> Plan:
        """Return the sets of every step of an epoch, counted from 1."""


class Deterministic(Sampler):
    """A sampler without randomness: each set comes exactly as often as planned."""

    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each set comes in an epoch."""
        counts = Counter(name for step in self.epoch(epoch) for name in step)
        return {name: float(counts[name]) for name in self.rows}
