"""Uncertainty: losses weighted by a trained variance per task (Kendall, Gal & Cipolla 2018, arXiv:1705.07115)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from palbert.objectives import Goal
from palbert.objectives.balance.balance import Balance


class Uncertainty(Balance):
    """c e^(−s) L + s/2 with one trained s = log σ² per task; c is ½ for numbers and 1 for other targets.

    Equations 7 and 10, with s in place of σ as in section 3.2, which avoids a division by 0. All s start at 0, where
    the loss of classes is unchanged and that of numbers is halved. A loss that stays at L pulls s towards log 2L, or
    log L for numbers, where the weighted loss is ½; a loss near 0 therefore gains weight without bound.

    Each s is a separate parameter: a step without its task leaves it unchanged, and gradient methods see that no two
    tasks share it. They are trained at the rate of the heads, without weight decay.
    """

    def __init__(self, goals: Mapping[str, Goal]) -> None:
        super().__init__(goals)
        # By number: torch cannot keep parameters under every name that a task may have.
        self.places = {name: number for number, name in enumerate(goals)}
        self.log_variances = nn.ParameterList(torch.zeros(()) for _ in goals)

    def forward(self, losses: Mapping[str, Tensor], shares: Mapping[str, float]) -> dict[str, Tensor]:
        """Return the weighted losses, each with its share of s/2."""
        return {
            name: self._weight(name) * loss + shares[name] / 2 * self._log_variance(name)
            for name, loss in losses.items()
        }

    def weights(self) -> dict[str, Tensor]:
        """Return c e^(−s)."""
        return {name: self._weight(name).detach() for name in self.places}

    def _log_variance(self, name: str) -> Tensor:
        log_variance: Tensor = self.log_variances[self.places[name]]
        return log_variance

    def _weight(self, name: str) -> Tensor:
        precision = torch.exp(-self._log_variance(name))
        return self.goals[name].target.precision_weight * precision
