"""MGDA: the shortest vector among the averages of the tasks' gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from palbert.gradients.weighted import Memory, Weighted, torchjd_weighting


class MGDA(Weighted):
    """Multiple-gradient descent: min_w ‖Σ w_i g_i‖² subject to w_i ≥ 0 and Σ w_i = 1.

    Désidéri 2012, doi:10.1016/j.crma.2012.03.014; solved as in Sener & Koltun 2018, arXiv:1810.04650, algorithm 2.
    It leans to the tasks with the shortest gradients.
    """

    def __init__(self, weights: Mapping[str, float], *, parameters: Sequence[Tensor], memory: Memory = "keep") -> None:
        weighting = torchjd_weighting("MGDAWeighting")
        super().__init__(weights, parameters=parameters, weighting=weighting, memory=memory)
