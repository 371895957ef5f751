"""SelfAttention: what a block does between its fused projection and its output projection."""

from __future__ import annotations

from torch import Tensor, nn

from palbert.model.attention.backends import attend
from palbert.model.attention.sequences import Sequences
from palbert.model.config import EncoderConfig


class SelfAttention(nn.Module):
    """Multi-head attention of one layer, without weights of its own; the block owns the linear layers around it.

    Args:
        config: The encoder's configuration.
        layer: Number of the layer.
    """

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.heads = config.heads
        self.probability = config.attention_dropout
        """Share of the attention probabilities dropped, in training."""
        self.window = config.windows[layer] if config.windows else 0
        self.rotary_base = config.rotary_bases[layer] if config.rotary_bases else None

    def forward(self, projected: Tensor, sequences: Sequences) -> Tensor:
        """Mix the values of each sequence, (tokens, 3 × hidden) to (tokens, hidden)."""
        fused = projected.view(projected.shape[0], 3, self.heads, -1)
        if self.rotary_base is not None:
            fused = sequences.rotations[self.rotary_base](fused)
        probability = self.probability if self.training else 0.0
        return attend(fused, sequences.within(self.window), dropout=probability).flatten(1)
