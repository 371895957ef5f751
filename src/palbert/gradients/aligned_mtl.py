"""Aligned-MTL: make the tasks' gradients orthogonal and equally long before they are averaged."""

from __future__ import annotations

from typing import Literal

from palbert.gradients.weighting import TorchJDWeighting


class AlignedMTL(TorchJDWeighting):
    """Independent component alignment: w = σ V Σ⁻¹ Vᵀ (1/T), from the eigenvectors V and values Σ² of the Gram matrix.

    Senushkin et al. 2023, arXiv:2305.19000, algorithm 1.

    Args:
        scale_mode: σ² is the smallest eigenvalue ("min", as in the paper), the median, or the mean ("rmse").
    """

    def __init__(self, *, scale_mode: Literal["min", "median", "rmse"] = "min") -> None:
        if scale_mode not in ("min", "median", "rmse"):
            raise ValueError(f"scale_mode: expected 'min', 'median' or 'rmse', found {scale_mode!r}.")
        super().__init__("AlignedMTLWeighting", scale_mode=scale_mode)
