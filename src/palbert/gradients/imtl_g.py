"""IMTL-G: the combination whose projections onto all tasks' gradients are equal."""

from __future__ import annotations

from palbert.gradients.weighting import TorchJDWeighting


class IMTLG(TorchJDWeighting):
    """Impartial multi-task learning, gradient part: Σ w_i g_i with ⟨d, g_i⟩ / ‖g_i‖ the same for all i, and Σ w_i = 1.

    Liu et al. 2021, https://openreview.net/forum?id=IMPnRXEWpvr; in the form of arXiv:2406.16232, which admits linearly
    dependent gradients. Weights may be negative.
    """

    def __init__(self) -> None:
        super().__init__("IMTLGWeighting")
