"""Adaptive round robin: the largest set alone at first, then all sets in turn."""

from __future__ import annotations

from palbert.options import check_count
from palbert.training.samplers.round_robin import RoundRobin
from palbert.training.samplers.sampler import Plan, Settings


class AdaptiveRoundRobin(RoundRobin):
    """In the first r epochs only the largest task's own set, then round robin over all sets.

    A pass in the first epochs ends with that set, so epochs may differ in length; extra sets are not used in them.

    Args:
        settings: The sets and the length of the run.
        cycle: Continue a pass of round robin until the largest set ends.
        rounds: r, the number of epochs with the largest task alone.
    """

    def __init__(self, settings: Settings, *, cycle: bool = False, rounds: int = 1) -> None:
        super().__init__(settings, cycle=cycle)
        self.rounds = check_count("rounds", rounds)
        own = [name for name in self.rows if settings.tasks[name] == name]
        self.largest = max(own, key=lambda name: self.rows[name])
        self.first_steps = settings.steps or self.batches[self.largest]

    def length(self, epoch: int) -> int:
        """Return the steps of an epoch: at first one pass over the largest task's set, unless the recipe sets them."""
        return self.first_steps if epoch <= self.rounds else self.steps

    def epoch(self, epoch: int) -> Plan:
        """Return the largest task's set for every step, or all sets in turn."""
        return [(self.largest,)] * self.length(epoch) if epoch <= self.rounds else super().epoch(epoch)
