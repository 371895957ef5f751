"""Low-rank layers: PALs' plainest rival, a linear bottleneck beside each layer (arXiv:1902.02671, section 3.1)."""

from __future__ import annotations

from torch import Tensor, nn

from palbert.model.adapters.branches import Adapter
from palbert.model.attention import Sequences


class LowRank(Adapter):
    """h' = LN(h + SA(h) + V_D · V_E · h): a PAL whose attention is the identity. V_D starts at zero.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        size: Rank of the branch.
        shared_projections: One V_E and one V_D for all layers.
    """

    def __init__(self, hidden_size: int, *, layers: int, size: int = 100, shared_projections: bool = False) -> None:
        super().__init__()
        projections = 1 if shared_projections else layers
        self.down = nn.ModuleList(nn.Linear(hidden_size, size, bias=False) for _ in range(projections))
        self.up = nn.ModuleList(nn.Linear(size, hidden_size, bias=False) for _ in range(projections))
        for weight in self.up.parameters():
            nn.init.zeros_(weight)

    def beside(self, layer: int, hidden: Tensor, sequences: Sequences) -> Tensor:
        """Return V_D · V_E · h, (tokens, hidden)."""
        projection = layer % len(self.down)
        wide: Tensor = self.up[projection](self.down[projection](hidden))
        return wide
