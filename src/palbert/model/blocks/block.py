"""Block: one layer of an encoder, with its weights; subclasses say in which order they are used."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from palbert.model.adapters.branches import PLAIN, Branches
from palbert.model.attention import Sequences
from palbert.model.attention.self_attention import SelfAttention
from palbert.model.config import EncoderConfig
from palbert.model.dropout import Dropout
from palbert.model.feed_forward import FEED_FORWARDS
from palbert.model.linear import Linear
from palbert.model.norm import NORMS

LINEAR_ROLES = ("query_key_value", "attention_output", "intermediate", "output")
"""The linear layers of a block, in the order in which they are used."""


class Block(nn.Module, ABC):
    """Attention and a feed-forward network, each with a residual and a norm.

    Args:
        config: The encoder's configuration.
        layer: Number of the layer.
    """

    has_final_norm = False
    """Whether an encoder of such blocks ends with a norm."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        size = config.hidden_size
        norm = NORMS[config.norm]
        self.self_attention = SelfAttention(config, layer)
        feed_forward = FEED_FORWARDS[config.feed_forward]
        self.feed_forward: nn.Module = feed_forward(config.activation)
        self.query_key_value = Linear(size, 3 * size, bias=config.attention_bias)
        self.attention_output = Linear(size, size, bias=config.attention_bias)
        self.attention_norm: nn.Module = nn.Identity()
        if layer or config.first_attention_norm:
            self.attention_norm = norm(size, eps=config.norm_epsilon, bias=config.norm_bias)
        self.intermediate = Linear(size, feed_forward.outputs(config.intermediate_size), bias=config.feed_forward_bias)
        self.output = Linear(config.intermediate_size, size, bias=config.feed_forward_bias)
        self.norm: nn.Module = norm(size, eps=config.norm_epsilon, bias=config.norm_bias)
        self.dropout = Dropout(config.dropout)

    @abstractmethod
    def forward(self, hidden: Tensor, sequences: Sequences, branches: Branches = PLAIN) -> Tensor:
        """Return the block's output, (tokens, hidden)."""

    def attend(self, values: Tensor, sequences: Sequences, branches: Branches = PLAIN) -> Tensor:
        """Return the output of attention over normed or raw inputs, (tokens, hidden)."""
        projected = branches.query_key_value(self.query_key_value(values), values)  # (tokens, 3 × hidden)
        output: Tensor = self.attention_output(self.self_attention(projected, sequences))
        return output

    def feed(self, values: Tensor) -> Tensor:
        """Return the output of the feed-forward network, (tokens, hidden)."""
        output: Tensor = self.output(self.feed_forward(self.intermediate(values)))
        return output

    def linear_layers(self) -> dict[str, nn.Module]:
        """Return the linear layers by their role in the block."""
        return {role: getattr(self, role) for role in LINEAR_ROLES}

    def replace_linear(self, role: str, layer: nn.Module) -> None:
        """Put another module in the place of a linear layer."""
        assert role in LINEAR_ROLES
        setattr(self, role, layer)
