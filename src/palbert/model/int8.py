"""Int8: the encoder's linear layers with eight-bit weights and inputs, for inference on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palbert.model.encoder import Encoder

LEVELS = 127
"""Steps from 0 to the largest value, in either direction."""
ZERO = 128
"""The unsigned byte that stands for 0: oneDNN is fast for unsigned inputs only."""
SMALLEST = 1e-12
"""Stands for the largest value of what is all zero, so that nothing is divided by 0."""


class Int8Linear(nn.Module):
    """A linear layer that multiplies bytes: each output's weights have a scale, and so has each token.

    The scale is the largest value over `LEVELS`. One for each token, in place of one for the whole batch, halves the
    error, and makes what a token becomes independent of the batch it comes in.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()  # (outputs, inputs)
        self.scales = _scales(weight).flatten()
        self.packed = torch.ops.onednn.qlinear_prepack(_rounded(weight, self.scales[:, None]).to(torch.int8), None)
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.one, self.zero = torch.ones(1), torch.tensor([ZERO], dtype=torch.int32)

    def forward(self, values: Tensor) -> Tensor:
        """Map (tokens, inputs) to (tokens, outputs)."""
        scales = _scales(values)  # (tokens, 1)
        bytes = _rounded(values, scales).add_(ZERO).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            bytes, self.one, self.zero, self.packed, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        scaled = product.mul_(scales)
        return scaled if self.bias is None else scaled.add_(self.bias)


def quantise(encoder: Encoder) -> None:
    """Put eight-bit layers in the place of the linear ones in every layer; embeddings and pooler stay as they are."""
    for parent in list(encoder.layers.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear(child))


def _scales(values: Tensor) -> Tensor:
    """Return the size of a step in each row, (rows, 1)."""
    return values.abs().amax(1, keepdim=True).clamp_min_(SMALLEST).div_(LEVELS)


def _rounded(values: Tensor, scales: Tensor) -> Tensor:
    return (values / scales).round_()
