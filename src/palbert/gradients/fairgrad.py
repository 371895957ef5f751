"""FairGrad: divide progress among the tasks by α-fairness."""

from __future__ import annotations

from palbert.gradients.weighting import TorchJDWeighting
from palbert.options import check_number


class FairGrad(TorchJDWeighting):
    """Fair resource allocation: Σ w_i g_i with w > 0 and G w = w^(−1/α), G the Gram matrix.

    Ban & Ji 2024, arXiv:2402.15638, equation 4. Here G is scaled to a mean diagonal of 1, which changes the length of
    the update but not its direction: the update grows and shrinks with the gradients.

    Args:
        alpha: 1 is proportional fairness; the larger, the more the worst-off task counts.
    """

    def __init__(self, *, alpha: float = 1.0) -> None:
        super().__init__("FairGradWeighting", alpha=check_number("alpha", alpha, least=0))
