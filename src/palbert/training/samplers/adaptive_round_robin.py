"""Adaptive round robin: the largest set alone at first, then all sets in turn."""

from __future__ import annotations

from palbert.options import check_count
from palbert.training.samplers.round_robin import RoundRobin
from palbert.training.samplers.sampler import Plan, Settings


class AdaptiveRoundRobin(RoundRobin):
    """In the first r epochs only the largest task, then round robin.

    One pass of the first epochs ends with that task's own set, so epochs may differ in length; extra sets wait.

    Args:
        settings: The sets and the length of the run.
        cycle: Let a pass of round robin go on until the largest set ends.
        rounds: r, how many epochs the largest task has to itself.
    """

    def __init__(self, settings: Settings, *, cycle: bool = False, rounds: int = 1) -> None:
        super().__init__(settings, cycle=cycle)
        self.rounds = check_count("rounds", rounds)
        own = [name for name in self.rows if settings.tasks[name] == name]
        self.largest = max(own, key=lambda name: self.rows[name])
        self.first_steps = settings.steps or self.batches[self.largest]

    def length(self, epoch: int) -> int:
        """Return the steps of an epoch: one pass of the largest task at first, unless the recipe says."""
        return self.first_steps if epoch <= self.rounds else self.steps

    def epoch(self, epoch: int) -> Plan:
        """Stay with the largest task, or go round the sets."""
        return [(self.largest,)] * self.length(epoch) if epoch <= self.rounds else super().epoch(epoch)
