"""Sequential: all batches of one set, then all of the next."""

from __future__ import annotations

from itertools import accumulate

from palbert.training.samplers.sampler import Deterministic, Plan


class Sequential(Deterministic):
    """All batches of each set in turn, in the recipe's order.

    If the recipe sets the steps of an epoch, each set gets its share of them, in proportion to its batches.
    """

    def epoch(self, epoch: int) -> Plan:
        """Return each set for its share of the steps."""
        total = sum(self.batches.values())
        # In integers, so that the shares add up to the steps, and each is within 1 of the exact one.
        ends = [(2 * self.steps * end + total) // (2 * total) for end in accumulate(self.batches.values())]
        starts = [0, *ends[:-1]]
        plan: Plan = []
        for name, start, end in zip(self.batches, starts, ends, strict=True):
            plan += [(name,)] * (end - start)
        return plan
