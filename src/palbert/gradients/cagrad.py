"""CAGrad: the best for the worst-off task, in a ball around the mean gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from palbert.gradients.weighted import MemoryName, Weighted, torchjd_weighting
from palbert.options import check_number


class CAGrad(Weighted):
    """Conflict-averse gradient: max_d min_i ⟨g_i, d⟩ subject to ‖d − ḡ‖ ≤ c ‖ḡ‖, where ḡ = (1/T) Σ g_i.

    Liu et al. 2021, arXiv:2110.14048, algorithm 1. With c = 0 it is the mean.

    Args:
        weights: λ of each task.
        parameters: All that is trained.
        c: The radius of the ball, as a share of the mean gradient's length.
        memory: See `Weighted`.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        parameters: Sequence[Tensor],
        c: float = 0.4,
        memory: MemoryName = "keep",
    ) -> None:
        weighting = torchjd_weighting("CAGradWeighting", c=check_number("c", c, least=0))
        super().__init__(weights, parameters=parameters, weighting=weighting, memory=memory)
