"""Packed: the encoder's linear layers with weights laid out as oneDNN reads them, for inference on x86 CPUs."""

from __future__ import annotations

import platform

import torch
from torch import Tensor, nn

from palbert.model.encoder import Encoder

FUSED = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
    "swish": ("swish", ""),
}
"""What oneDNN calls the feed-forward activations, and their variant."""


class PackedLinear(nn.Module):
    """A linear layer, with its activation in the same kernel: the numbers are in the cache once, not three times.

    Args:
        layer: The layer, whose weight is copied.
        activation: What follows it; nothing unless given.
    """

    def __init__(self, layer: nn.Linear, activation: tuple[str, str] = ("none", "")) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.activation = activation

    def forward(self, values: Tensor) -> Tensor:
        """Map (tokens, inputs) to (tokens, outputs)."""
        name, variant = self.activation
        mapped: Tensor = torch.ops.mkldnn._linear_pointwise(values, self.packed, self.bias, name, [], variant)
        return mapped


def can_pack() -> bool:
    """Whether this is a processor that it is known to pay for, and torch was built with oneDNN."""
    return platform.machine() in ("x86_64", "AMD64") and torch._C._has_mkldnn


def pack(encoder: Encoder) -> None:
    """Put packed layers in the place of the linear ones in every layer; embeddings and pooler stay as they are."""
    for layer in encoder.layers:
        for name in ("query_key_value", "attention_output", "intermediate", "output"):
            activation = FUSED[encoder.config.activation] if name == "intermediate" else ("none", "")
            setattr(layer, name, PackedLinear(getattr(layer, name), activation))
        layer.activation = nn.Identity()
