"""Proportional: sets drawn in proportion to their size."""

from __future__ import annotations

from palbert.training.samplers.drawn import Drawn


class Proportional(Drawn):
    """p_i ∝ N_i: every row is as likely as any other."""

    def exponent(self, epoch: int) -> float:
        """Return 1."""
        return 1.0
