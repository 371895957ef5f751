"""Houlsby adapters: a bottleneck after attention and one after the feed-forward block (arXiv:1902.00751)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from palbert.model.adapters.branches import Adapter


class Houlsby(Adapter):
    """x + U · gelu(D · x) on the output of each block, before its residual; U starts at zero.

    The encoder's norms are shared by all tasks here; the paper gives each task its own.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        size: Width of the bottleneck.
    """

    def __init__(self, hidden_size: int, *, layers: int, size: int = 64) -> None:
        super().__init__()
        self.attention = nn.ModuleList(_Bottleneck(hidden_size, size) for _ in range(layers))
        self.feed_forward = nn.ModuleList(_Bottleneck(hidden_size, size) for _ in range(layers))

    def after_attention(self, layer: int, output: Tensor) -> Tensor:
        """Return the first bottleneck's term, (tokens, hidden)."""
        term: Tensor = self.attention[layer](output)
        return term

    def after_feed_forward(self, layer: int, output: Tensor) -> Tensor:
        """Return the second bottleneck's term, (tokens, hidden)."""
        term: Tensor = self.feed_forward[layer](output)
        return term


class _Bottleneck(nn.Module):
    def __init__(self, hidden_size: int, size: int) -> None:
        super().__init__()
        self.down = nn.Linear(hidden_size, size)
        self.up = nn.Linear(size, hidden_size)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, values: Tensor) -> Tensor:
        term: Tensor = self.up(F.gelu(self.down(values)))
        return term
