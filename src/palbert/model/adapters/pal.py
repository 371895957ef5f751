"""PALs: projected attention layers beside the encoder's own (Stickland & Murray 2019, arXiv:1902.02671)."""

from __future__ import annotations

from torch import Tensor, nn

from palbert.errors import RecipeError
from palbert.model.adapters.branches import Adapter
from palbert.model.attention import Sequences, attend


class PAL(Adapter):
    """h' = LN(h + SA(h) + TS(h)) with TS(h) = V_D · MH(V_E · h), section 3.2 of the paper.

    MH is multi-head attention in `size` dimensions with its own Q, K and V in every layer and no output matrix.
    V_E and V_D are shared by all layers, or separate in each. V_D starts at zero.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        size: Width inside the branch.
        heads: Attention heads of the branch.
        shared_projections: One V_E and one V_D for all layers.
        dropout: Share of the branch's attention probabilities dropped, when training.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        layers: int,
        size: int = 204,
        heads: int = 12,
        shared_projections: bool = True,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if size % heads:
            raise RecipeError(f"{heads} heads cannot share a PAL of size {size} evenly.")
        self.heads = heads
        self.dropout = dropout
        projections = 1 if shared_projections else layers
        self.down = nn.ModuleList(nn.Linear(hidden_size, size, bias=False) for _ in range(projections))
        self.up = nn.ModuleList(nn.Linear(size, hidden_size, bias=False) for _ in range(projections))
        self.query_key_values = nn.ModuleList(nn.Linear(size, 3 * size, bias=False) for _ in range(layers))
        for weight in self.up.parameters():
            nn.init.zeros_(weight)

    def beside(self, layer: int, hidden: Tensor, sequences: Sequences) -> Tensor:
        """Return TS(h), (tokens, hidden)."""
        projection = layer % len(self.down)  # 0 for all layers when they share
        narrow = self.down[projection](hidden)  # V_E · h
        fused = self.query_key_values[layer](narrow).unflatten(-1, (3, self.heads, -1))
        mixed = attend(fused, sequences, dropout=self.dropout if self.training else 0.0)  # (tokens, heads, width)
        wide: Tensor = self.up[projection](mixed.flatten(1))  # V_D · MH
        return wide
