"""Mixed: one batch from every task in every step."""

from __future__ import annotations

from palbert.training.samplers.sampler import Fixed, Plan


class Mixed(Fixed):
    """One batch from every task in every step; one pass ends with the largest set, smaller ones start again.

    The encoder runs once over all of them; how their losses become one update is the gradient method's.
    """

    def one_pass(self) -> int:
        """Return the steps until the largest set ends."""
        return max(self.batches.values())

    def epoch(self, epoch: int) -> Plan:
        """Take all tasks every time."""
        return [tuple(self.rows)] * self.steps
