"""Adaptive round robin: the largest set alone at first, then all sets in turn."""

from __future__ import annotations

from collections.abc import Mapping

from palbert.training.options import check_count
from palbert.training.samplers.round_robin import RoundRobin
from palbert.training.samplers.sampler import Plan


class AdaptiveRoundRobin(RoundRobin):
    """In the first r epochs only the largest set, then round robin.

    One pass of the first epochs ends with the largest set, so epochs may differ in length.

    Args:
        rows: Training rows of each task.
        batch_sizes: Rows that one batch of each task takes.
        epochs: Length of the run.
        steps: Steps per epoch, the first ones too; None for one pass.
        seed: Without effect: nothing is drawn.
        cycle: Let a pass of round robin go on until the largest set ends.
        rounds: r, how many epochs the largest set has to itself.
    """

    def __init__(
        self,
        rows: Mapping[str, int],
        *,
        batch_sizes: Mapping[str, int],
        epochs: int,
        steps: int | None,
        seed: int,
        cycle: bool = False,
        rounds: int = 1,
    ) -> None:
        super().__init__(rows, batch_sizes=batch_sizes, epochs=epochs, steps=steps, seed=seed, cycle=cycle)
        self.rounds = check_count("rounds", rounds)
        self.largest = max(self.rows, key=lambda task: self.rows[task])
        self.first_steps = steps or self.batches[self.largest]

    def length(self, epoch: int) -> int:
        """Return the steps of an epoch: one pass of the largest set at first, unless the recipe says."""
        return self.first_steps if epoch <= self.rounds else self.steps

    def epoch(self, epoch: int) -> Plan:
        """Stay with the largest set, or go round the tasks."""
        return [(self.largest,)] * self.length(epoch) if epoch <= self.rounds else super().epoch(epoch)
