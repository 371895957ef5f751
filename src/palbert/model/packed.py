"""Packed layers: linear layers of the encoder in oneDNN's own weight layout, for inference on x86 CPUs."""

from __future__ import annotations

import platform

import torch
from torch import Tensor, nn

from palbert.model.encoder import Encoder
from palbert.model.feed_forward import PlainFeedForward
from palbert.model.linear import InferenceLinear

FUSED = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
    "swish": ("swish", ""),
}
"""oneDNN's names of the feed-forward activations and their variants."""
NO_ACTIVATION = ("none", "")


class PackedLinear(InferenceLinear):
    """A linear layer and its activation in one kernel: the values pass through the cache once, not three times.

    Args:
        layer: The layer; its weight is copied.
        activation: The activation that follows, a value of `FUSED`.
    """

    def __init__(self, layer: nn.Linear, activation: tuple[str, str] = NO_ACTIVATION) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.activation = activation

    def forward(self, values: Tensor) -> Tensor:
        """Map (tokens, inputs) to (tokens, outputs)."""
        name, variant = self.activation
        mapped: Tensor = torch.ops.mkldnn._linear_pointwise(values, self.packed, self.bias, name, [], variant)
        return mapped

    def add_to(self, residual: Tensor, values: Tensor) -> Tensor:
        """Return the residual plus the layer's outputs; layers with an activation have no residual."""
        assert self.activation == NO_ACTIVATION
        total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(values, residual, self.packed, self.bias, "add")
        return total


def can_pack() -> bool:
    """Whether packing is known to be faster on this processor, and torch was built with oneDNN."""
    return platform.machine() in ("x86_64", "AMD64") and torch._C._has_mkldnn


def pack(encoder: Encoder) -> None:
    """Replace the linear layers of all blocks by packed ones; embeddings and pooler stay as they are."""
    for block in encoder.blocks():
        feed_forward = block.feed_forward
        fused = FUSED[feed_forward.name] if isinstance(feed_forward, PlainFeedForward) else NO_ACTIVATION
        for role, layer in block.linear_layers().items():
            assert isinstance(layer, nn.Linear)
            activation = fused if role == "intermediate" else NO_ACTIVATION
            block.replace_linear(role, PackedLinear(layer, activation))
        if fused is not NO_ACTIVATION:
            block.feed_forward = nn.Identity()
