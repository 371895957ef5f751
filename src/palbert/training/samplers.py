"""Task samplers: which task the next batch comes from."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from math import ceil

import numpy as np

Plan = list[tuple[str, ...]]


class Sampler(ABC):
    """A pure function of sizes, epoch and seed: the tasks of every step of an epoch.

    Args:
        rows: Training rows of each task.
        batch_sizes: Rows that one batch of each task takes.
        epochs: Length of the run.
        steps: Steps per epoch; None for one pass, as each sampler understands it.
        seed: Starts the draws.
    """

    def __init__(
        self,
        rows: Mapping[str, int],
        *,
        batch_sizes: Mapping[str, int],
        epochs: int,
        steps: int | None,
        seed: int,
    ) -> None:
        self.rows = dict(rows)
        self.batches = {task: ceil(rows[task] / batch_sizes[task]) for task in rows}
        self.epochs = epochs
        self.steps = steps or self.one_pass()
        self.seed = seed

    def one_pass(self) -> int:
        """Return the steps of an epoch when the recipe does not say."""
        return sum(self.batches.values())

    @abstractmethod
    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each task is expected in an epoch, counted from 1."""

    @abstractmethod
    def epoch(self, epoch: int) -> Plan:
        """Return the tasks of every step of an epoch, counted from 1."""


class _Drawn(Sampler):
    """Draw each step's task with a probability that depends on the epoch alone."""

    @abstractmethod
    def exponent(self, epoch: int) -> float:
        """Return α of p_i ∝ N_i^α."""

    def probabilities(self, epoch: int) -> dict[str, float]:
        """Return each task's probability in an epoch."""
        alpha = self.exponent(epoch)
        largest = max(self.rows.values())
        weights = {task: (rows / largest) ** alpha for task, rows in self.rows.items()}
        total = sum(weights.values())
        return {task: weight / total for task, weight in weights.items()}

    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each task is expected in an epoch."""
        return {task: self.steps * p for task, p in self.probabilities(epoch).items()}

    def epoch(self, epoch: int) -> Plan:
        """Draw the tasks of an epoch."""
        probabilities = self.probabilities(epoch)
        generator = np.random.default_rng([self.seed, zlib.crc32(b"sampler"), epoch])
        drawn = generator.choice(list(probabilities), size=self.steps, p=list(probabilities.values()))
        return [(str(task),) for task in drawn]


class Proportional(_Drawn):
    """p_i ∝ N_i: every row is as likely as any other."""

    def exponent(self, epoch: int) -> float:
        """Return 1."""
        return 1.0


class Annealed(_Drawn):
    """p_i ∝ N_i^α with α = 1 − 0.8 (e − 1)/(E − 1): by size at first, almost evenly at the end.

    Stickland & Murray 2019, arXiv:1902.02671, section 4.1. One epoch means α = 1.
    """

    def __init__(
        self,
        rows: Mapping[str, int],
        *,
        batch_sizes: Mapping[str, int],
        epochs: int,
        steps: int | None,
        seed: int,
        decay: float = 0.8,
    ) -> None:
        super().__init__(rows, batch_sizes=batch_sizes, epochs=epochs, steps=steps, seed=seed)
        self.decay = decay

    def exponent(self, epoch: int) -> float:
        """Return α for an epoch."""
        if self.epochs == 1:
            return 1.0
        return 1.0 - self.decay * (epoch - 1) / (self.epochs - 1)


class RoundRobin(Sampler):
    """One batch from each task in turn; one pass ends with the smallest set."""

    def one_pass(self) -> int:
        """Return the steps until the smallest set ends."""
        return len(self.batches) * min(self.batches.values())

    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each task comes in an epoch."""
        counts = Counter(task for step in self.epoch(epoch) for task in step)
        return {task: float(counts[task]) for task in self.rows}

    def epoch(self, epoch: int) -> Plan:
        """Go round the tasks in the recipe's order."""
        tasks = list(self.rows)
        return [(tasks[step % len(tasks)],) for step in range(self.steps)]


SAMPLERS: dict[str, type[Sampler]] = {
    "annealed": Annealed,
    "proportional": Proportional,
    "round-robin": RoundRobin,
}
