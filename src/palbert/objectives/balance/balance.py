"""Balance: the base class of balancing methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor, nn

from palbert.objectives import Goal


class Balance(nn.Module, ABC):
    """Scale the losses of a batch before their gradients are taken.

    Its parameters are trained; they and its buffers are saved in `checkpoints/last`, like those of a term.

    Args:
        goals: What is known about each loss, by the name of its training set.
    """

    def __init__(self, goals: Mapping[str, Goal]) -> None:
        super().__init__()
        self.goals = dict(goals)

    @abstractmethod
    def forward(self, losses: Mapping[str, Tensor], shares: Mapping[str, float]) -> dict[str, Tensor]:
        """Return what is minimised in place of the losses.

        Args:
            losses: The losses of one batch, each times its share.
            shares: The share of the step's rows that the batch holds, for each loss. Whatever is added to a loss is
                multiplied by this share, so that a step split into pieces has the gradient of the whole.
        """

    def after_step(self, losses: Mapping[str, Tensor]) -> None:
        """Observe the unbalanced losses of a whole step, once after the optimizer's step."""

    def weights(self) -> dict[str, Tensor]:
        """Return the present factor of each loss, for the log; the tensors stay on the device."""
        return {}
