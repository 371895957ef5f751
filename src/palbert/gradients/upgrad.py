"""UPGrad: project each task's gradient to where no task loses, then take the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from palbert.gradients.weighted import Memory, Weighted, torchjd_weighting


class UPGrad(Weighted):
    """Unconflicting projection of gradients: (1/T) Σ_i π(g_i), π the projection onto {d : ⟨g_j, d⟩ ≥ 0 for all j}.

    Quinton & Rey 2024, arXiv:2406.16232, section 3. The update conflicts with no task, however many there are.
    """

    def __init__(self, weights: Mapping[str, float], *, parameters: Sequence[Tensor], memory: Memory = "keep") -> None:
        weighting = torchjd_weighting("UPGradWeighting")
        super().__init__(weights, parameters=parameters, weighting=weighting, memory=memory)
