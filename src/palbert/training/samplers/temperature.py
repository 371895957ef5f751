"""Temperature: sets drawn by size (temperature 1) to evenly (infinity)."""

from __future__ import annotations

from collections.abc import Mapping

from palbert.options import check_number
from palbert.training.samplers.drawn import Drawn
from palbert.training.samplers.sampler import Settings


class Temperature(Drawn):
    """p_i ∝ N_i^(1/T): by size for T = 1, by its square root for T = 2, evenly for T = ∞.

    Arivazhagan et al. 2019, arXiv:1907.05019.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        factors: Mapping[str, float] | None = None,
        temperature: float = 2.0,
    ) -> None:
        super().__init__(settings, factors=factors)
        self.temperature = check_number("temperature", temperature, above=0, finite=False)

    def exponent(self, epoch: int) -> float:
        """Return 1/T."""
        return 1.0 / self.temperature
