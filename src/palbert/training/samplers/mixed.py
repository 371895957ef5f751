"""Mixed: one batch from every set in every step."""

from __future__ import annotations

from palbert.training.samplers.sampler import Deterministic, Plan


class Mixed(Deterministic):
    """One batch from every set in every step; a pass ends with the largest set, smaller ones start again.

    The encoder runs once over all batches; the gradient method turns their losses into one update.
    """

    def one_pass(self) -> int:
        """Return the steps until the largest set ends."""
        return max(self.batches.values())

    def epoch(self, epoch: int) -> Plan:
        """Return all sets for every step."""
        return [tuple(self.rows)] * self.steps
