"""PCGrad: project each task's gradient off those it conflicts with."""

from __future__ import annotations

from palbert.gradients.weighting import TorchJDWeighting


class PCGrad(TorchJDWeighting):
    """Gradient surgery: Σ_i g_i', where g_i' loses what points against any other task.

    Yu et al. 2020, arXiv:2001.06782, algorithm 1. From g_i' = g_i, for every other j in random order:
    g_i' ← g_i' − min(0, ⟨g_i', g_j⟩) / ‖g_j‖² · g_j. Without conflicts it is the sum. The orders come from torch's
    own generator, so the run's seed fixes them and a resumed run draws the same.
    """

    def __init__(self) -> None:
        super().__init__("PCGradWeighting")
