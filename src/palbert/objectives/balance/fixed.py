"""Fixed: no balancing."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from palbert.objectives.balance.balance import Balance


class Fixed(Balance):
    """Leave the losses unchanged; only the tasks' own weights count, which the gradient method applies."""

    def forward(self, losses: Mapping[str, Tensor], shares: Mapping[str, float]) -> dict[str, Tensor]:
        """Return the losses."""
        return dict(losses)
