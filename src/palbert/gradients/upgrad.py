"""UPGrad: project each task's gradient to where no task loses, then take the mean."""

from __future__ import annotations

from palbert.gradients.weighting import TorchJDWeighting


class UPGrad(TorchJDWeighting):
    """Unconflicting projection of gradients: (1/T) Σ_i π(g_i), π the projection onto {d : ⟨g_j, d⟩ ≥ 0 for all j}.

    Quinton & Rey 2024, arXiv:2406.16232, section 3. The update conflicts with no task, however many there are.
    """

    def __init__(self) -> None:
        super().__init__("UPGradWeighting")
