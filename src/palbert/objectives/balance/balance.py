"""Balance: the shape of a balancing method."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from palbert.objectives import Goal


class Balance(nn.Module):
    """Scale the losses of a batch before their gradients are taken.

    What it has as parameters is trained, and they and its buffers are kept in `checkpoints/last`, as those of a term.

    Args:
        goals: What there is to know of each loss, by the names that the losses come under.
    """

    def __init__(self, goals: Mapping[str, Goal]) -> None:
        super().__init__()
        self.goals = dict(goals)

    def forward(self, losses: Mapping[str, Tensor], shares: Mapping[str, float]) -> dict[str, Tensor]:
        """Return what is to be made small in place of the losses.

        Args:
            losses: The losses of one batch, each times its share.
            shares: The share of the step's rows that the batch holds, of each loss. What is added to a loss is
                added in this share, so that a step cut into pieces has the gradient of the whole.
        """
        raise NotImplementedError

    def after_step(self, losses: Mapping[str, Tensor]) -> None:
        """Look at the losses of a whole step, as they were before balancing, once after the optimizer."""

    def weights(self) -> dict[str, Tensor]:
        """Return the present factor of each loss, for the log; left on the device."""
        return {}
