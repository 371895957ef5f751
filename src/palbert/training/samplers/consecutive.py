"""Consecutive: one sampler after another, for the phases of a run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from palbert.errors import RecipeError
from palbert.training.samplers.sampler import Plan, Sampler


class Consecutive(Sampler):
    """The epochs of the first sampler, then those of the next; each sampler counts its own epochs from 1."""

    def __init__(self, samplers: Sequence[Sampler]) -> None:
        self.samplers = list(samplers)
        self.rows = {name: rows for sampler in samplers for name, rows in sampler.rows.items()}
        self.epochs = sum(sampler.epochs for sampler in samplers)
        self._last = list(accumulate(sampler.epochs for sampler in samplers))

    @property
    def spans(self) -> list[range]:
        """The epochs of each sampler, numbered as in the run."""
        return [
            range(last - sampler.epochs + 1, last + 1) for sampler, last in zip(self.samplers, self._last, strict=True)
        ]

    def length(self, epoch: int) -> int:
        """Return the steps of an epoch."""
        sampler, own = self._at(epoch)
        return sampler.length(own)

    def planned(self, epoch: int) -> dict[str, float]:
        """Return how often each set is expected in an epoch: 0 for sets of other phases."""
        sampler, own = self._at(epoch)
        return {**dict.fromkeys(self.rows, 0.0), **sampler.planned(own)}

    def epoch(self, epoch: int) -> Plan:
        """Return the sets of every step of an epoch."""
        sampler, own = self._at(epoch)
        plan = sampler.epoch(own)
        _check(plan, sampler, own)
        return plan

    def _at(self, epoch: int) -> tuple[Sampler, int]:
        number = bisect_left(self._last, epoch)
        return self.samplers[number], epoch - self.spans[number].start + 1


def _check(plan: Plan, sampler: Sampler, epoch: int) -> None:
    """Raise RecipeError unless a plan has the steps of its epoch, each with training sets of the sampler."""
    whose, known = f"{type(sampler).__name__}.epoch({epoch})", set(sampler.rows)
    if len(plan) != sampler.length(epoch):
        raise RecipeError(
            f"{whose} gives {len(plan)} steps; expected {sampler.length(epoch)}, as length({epoch}) says."
        )
    for step in plan:
        if not (isinstance(step, tuple) and step and known.issuperset(step)):
            raise RecipeError(
                f"{whose} gives the step {step!r}; expected a tuple with some of: {', '.join(sampler.rows)}."
            )
