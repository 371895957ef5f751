"""Aligned-MTL: make the tasks' gradients orthogonal and equally long before they are averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor

from palbert.gradients.weighted import MemoryName, Weighted, torchjd_weighting


class AlignedMTL(Weighted):
    """Independent component alignment: w = σ V Σ⁻¹ Vᵀ (1/T), from the eigenvectors V and values Σ² of the Gram matrix.

    Senushkin et al. 2023, arXiv:2305.19000, algorithm 1.

    Args:
        weights: λ of each task.
        parameters: All that is trained.
        scale_mode: σ² is the smallest eigenvalue ("min", as in the paper), the median, or the mean ("rmse").
        memory: See `Weighted`.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        parameters: Sequence[Tensor],
        scale_mode: Literal["min", "median", "rmse"] = "min",
        memory: MemoryName = "keep",
    ) -> None:
        if scale_mode not in ("min", "median", "rmse"):
            raise ValueError(f"scale_mode: expected 'min', 'median' or 'rmse', found {scale_mode!r}.")
        weighting = torchjd_weighting("AlignedMTLWeighting", scale_mode=scale_mode)
        super().__init__(weights, parameters=parameters, weighting=weighting, memory=memory)
