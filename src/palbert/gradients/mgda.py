"""MGDA: the shortest vector among the averages of the tasks' gradients."""

from __future__ import annotations

from palbert.gradients.weighting import TorchJDWeighting


class MGDA(TorchJDWeighting):
    """Multiple-gradient descent: min_w ‖Σ w_i g_i‖² subject to w_i ≥ 0 and Σ w_i = 1.

    Désidéri 2012, doi:10.1016/j.crma.2012.03.014; solved as in Sener & Koltun 2018, arXiv:1810.04650, algorithm 2.
    It favours the tasks with the shortest gradients.
    """

    def __init__(self) -> None:
        super().__init__("MGDAWeighting")
