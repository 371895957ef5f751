"""Drawn: samplers that draw each step's task with p_i ∝ f_i N_i^α."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from palbert.errors import PalbertError, did_you_mean
from palbert.options import check_number
from palbert.training.samplers.sampler import Plan, Sampler, Settings


class Drawn(Sampler):
    """Draw each step's task with a probability that depends on the epoch alone.

    Args:
        settings: The sets and the length of the run.
        factors: f_i, multiplied onto the weights of the tasks named; 1 for all others.
    """

    def __init__(self, settings: Settings, *, factors: Mapping[str, float] | None = None) -> None:
        super().__init__(settings)
        self.factors = {**dict.fromkeys(self.rows, 1.0), **_checked(factors, self.rows)}

    @abstractmethod
    def exponent(self, epoch: int) -> float:
        """Return α of p_i ∝ f_i N_i^α."""

    def probabilities(self, epoch: int) -> dict[str, float]:
        """Return each task's probability in an epoch."""
        alpha = self.exponent(epoch)
        largest = max(self.rows.values())
        weights = {task: self.factors[task] * (rows / largest) ** alpha for task, rows in self.rows.items()}
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


def _checked(factors: Mapping[str, float] | None, rows: Mapping[str, int]) -> dict[str, float]:
    """Return the factors, or say which of them cannot be used."""
    if factors is None:
        return {}
    if not isinstance(factors, Mapping):
        raise PalbertError(f"factors: expected a number for each task, as in {{snli = 0.1}}, found {factors!r}.")
    for task, factor in factors.items():
        if task not in rows:
            raise PalbertError(f"factors: unknown task '{task}'.", hint=did_you_mean(task, rows))
        check_number(f"factors.{task}", factor, least=0)
    if not any(factors.get(task, 1.0) for task in rows):
        raise PalbertError("factors: all tasks have the factor 0; at least one must be drawn.")
    return dict(factors)
