"""FairGrad: divide progress among the tasks by α-fairness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from palbert.gradients.weighted import MemoryName, Weighted, torchjd_weighting
from palbert.options import check_number


class FairGrad(Weighted):
    """Fair resource allocation: Σ w_i g_i with w > 0 and G w = w^(−1/α), G the Gram matrix.

    Ban & Ji 2024, arXiv:2402.15638, equation 4. G is scaled to a mean diagonal of 1 here, which changes the length of
    the update, not its direction: it grows and shrinks with the gradients.

    Args:
        weights: λ of each task.
        parameters: All that is trained.
        alpha: 1 is proportional fairness; the larger, the more the worst-off task counts.
        memory: See `Weighted`.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        parameters: Sequence[Tensor],
        alpha: float = 1.0,
        memory: MemoryName = "keep",
    ) -> None:
        weighting = torchjd_weighting("FairGradWeighting", alpha=check_number("alpha", alpha, least=0))
        super().__init__(weights, parameters=parameters, weighting=weighting, memory=memory)
