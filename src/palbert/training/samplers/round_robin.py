"""Round robin: one batch from each set in turn."""

from __future__ import annotations

from palbert.options import check_switch
from palbert.training.samplers.sampler import Deterministic, Plan, Settings


class RoundRobin(Deterministic):
    """One batch from each set in turn; a pass ends with the smallest set.

    Args:
        settings: The sets and the length of the run.
        cycle: Continue a pass until the largest set ends; smaller ones start again.
    """

    def __init__(self, settings: Settings, *, cycle: bool = False) -> None:
        super().__init__(settings)
        self.cycle = check_switch("cycle", cycle)

    def one_pass(self) -> int:
        """Return the steps until the smallest set ends, or the largest."""
        batches = self.batches.values()
        return len(batches) * (max(batches) if self.cycle else min(batches))

    def epoch(self, epoch: int) -> Plan:
        """Return the sets in turn, in the recipe's order."""
        names = list(self.rows)
        return [(names[step % len(names)],) for step in range(self.length(epoch))]
