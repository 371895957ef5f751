"""Square root: sets drawn in proportion to the square root of their size."""

from __future__ import annotations

from palbert.training.samplers.drawn import Drawn


class SquareRoot(Drawn):
    """p_i ∝ √N_i: between by size and evenly.

    A baseline of Stickland & Murray 2019, arXiv:1902.02671.
    """

    def exponent(self, epoch: int) -> float:
        """Return 1/2."""
        return 0.5
