"""CAGrad: the best update for the worst-off task, within a ball around the mean gradient."""

from __future__ import annotations

from palbert.gradients.weighting import TorchJDWeighting
from palbert.options import check_number


class CAGrad(TorchJDWeighting):
    """Conflict-averse gradient: max_d min_i ⟨g_i, d⟩ subject to ‖d − ḡ‖ ≤ c ‖ḡ‖, where ḡ = (1/T) Σ g_i.

    Liu et al. 2021, arXiv:2110.14048, algorithm 1. With c = 0 it is the mean.

    Args:
        c: The radius of the ball, as a share of the mean gradient's length.
    """

    def __init__(self, *, c: float = 0.4) -> None:
        super().__init__("CAGradWeighting", c=check_number("c", c, least=0))
