"""Sequential: all batches of one task, then all of the next."""

from __future__ import annotations

from itertools import accumulate

from palbert.training.samplers.sampler import Fixed, Plan


class Sequential(Fixed):
    """All batches of each task in turn, in the recipe's order.

    Where the recipe says how many steps an epoch has, each task gets its share of them by its batches.
    """

    def epoch(self, epoch: int) -> Plan:
        """Lay the tasks' stretches end to end."""
        total = sum(self.batches.values())
        # Whole numbers all the way: the stretches add up to the steps, and each is within 1 of its share.
        ends = [(2 * self.steps * end + total) // (2 * total) for end in accumulate(self.batches.values())]
        starts = [0, *ends[:-1]]
        plan: Plan = []
        for task, start, end in zip(self.batches, starts, ends, strict=True):
            plan += [(task,)] * (end - start)
        return plan
