"""Drawn: samplers that draw one set per step with p_i ∝ f_i N_i^α."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from palbert.errors import PalbertError, did_you_mean
from palbert.options import check_number
from palbert.training.samplers.sampler import Plan, Sampler, Settings


class Drawn(Sampler):
    """Draw one set per step with probabilities that depend on the epoch only.

    Args:
        settings: The sets and the length of the run.
        factors: f_i of the sets named; 1 for all others.
    """

    def __init__(self, settings: Settings, *, factors: Mapping[str, float] | None = None) -> None:
        super().__init__(settings)
        self.factors = {**dict.fromkeys(self.rows, 1.0), **_checked(factors, self.rows)}

    @abstractmethod
    def exponent(self, epoch: int) -> float:
        """Return α of p_i ∝ f_i N_i^α."""

    def probabilities(self, epoch: int) -> dict[str, float]:
        """Return each set's probability in an epoch."""
        alpha = self.exponent(epoch)
        largest = max(self.rows.values())
        weights = {name: self.factors[name] * (rows / largest) ** alpha for name, rows in self.rows.items()}
        total = sum(weights.values())
        return {name: weight / total for name, weight in weights.items()}

    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each set is expected in an epoch."""
        return {name: self.steps * p for name, p in self.probabilities(epoch).items()}

    def epoch(self, epoch: int) -> Plan:
        """Draw the sets of an epoch."""
        probabilities = self.probabilities(epoch)
        generator = np.random.default_rng([self.seed, zlib.crc32(b"sampler"), epoch])
        drawn = generator.choice(list(probabilities), size=self.steps, p=list(probabilities.values()))
        return [(str(name),) for name in drawn]


def _checked(factors: Mapping[str, float] | None, rows: Mapping[str, int]) -> dict[str, float]:
    """Return the factors; raise PalbertError for one that cannot be used."""
    if factors is None:
        return {}
    if not isinstance(factors, Mapping):
        raise PalbertError(f"factors: expected a number for each set, as in {{snli = 0.1}}, found {factors!r}.")
    for name, factor in factors.items():
        if name not in rows:
            raise PalbertError(f"factors: unknown set '{name}'.", hint=did_you_mean(name, rows))
        check_number(f"factors.{name}", factor, least=0)
    if not any(factors.get(name, 1.0) for name in rows):
        raise PalbertError("factors: all sets have the factor 0; at least one needs a factor above 0.")
    return dict(factors)
