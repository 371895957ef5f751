"""Square root: halfway, in powers, between by size and evenly."""

from __future__ import annotations

from palbert.training.samplers.drawn import Drawn


class SquareRoot(Drawn):
    """p_i ∝ √N_i: large sets lead, small ones are not drowned.

    A baseline of Stickland & Murray 2019, arXiv:1902.02671.
    """

    def exponent(self, epoch: int) -> float:
        """Return 1/2."""
        return 0.5
