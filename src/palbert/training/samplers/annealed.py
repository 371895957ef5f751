"""Annealed: sets drawn by size at first, almost evenly at the end."""

from __future__ import annotations

from collections.abc import Mapping

from palbert.options import check_number
from palbert.training.samplers.drawn import Drawn
from palbert.training.samplers.sampler import Settings


class Annealed(Drawn):
    """p_i ∝ N_i^α with α = 1 − 0.8 (e − 1)/(E − 1): by size at first, almost evenly at the end.

    Stickland & Murray 2019, arXiv:1902.02671, section 4.1. One epoch means α = 1.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        factors: Mapping[str, float] | None = None,
        decay: float = 0.8,
    ) -> None:
        super().__init__(settings, factors=factors)
        self.decay = check_number("decay", decay)

    def exponent(self, epoch: int) -> float:
        """Return α for an epoch."""
        if self.epochs == 1:
            return 1.0
        return 1.0 - self.decay * (epoch - 1) / (self.epochs - 1)
