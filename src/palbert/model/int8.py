"""Int8: the encoder's linear layers with eight-bit weights and inputs, for inference on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palbert.model.encoder import Encoder

WEIGHT_STEPS = 127
"""Steps from 0 to the largest weight of an output, in either direction."""
INPUT_STEPS = 255
"""Steps from the lowest value of a token to its highest: oneDNN is fast for unsigned inputs only."""
SMALLEST = 1e-12
"""Stands for the width of a range that has none, so that nothing is divided by 0."""


class Int8Linear(nn.Module):
    """A linear layer that multiplies bytes: x ≈ low + step · bytes, with a low and a step for each token.

    So W · x ≈ step · (W · bytes) + low · (sum of W's rows). Ranges by token, in place of one for the whole batch, make
    what a token becomes independent of the batch it comes in, and the error smaller.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()  # (outputs, inputs)
        self.scales = weight.abs().amax(1).clamp_min_(SMALLEST).div_(WEIGHT_STEPS)
        rounded = (weight / self.scales[:, None]).round_()
        self.packed = torch.ops.onednn.qlinear_prepack(rounded.to(torch.int8), None)
        self.sums = rounded.sum(1) * self.scales
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.one, self.zero = torch.ones(1), torch.zeros(1, dtype=torch.int32)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)

    def forward(self, values: Tensor) -> Tensor:
        """Map (tokens, inputs) to (tokens, outputs)."""
        low = values.amin(1, keepdim=True)  # (tokens, 1)
        step = (values.amax(1, keepdim=True) - low).clamp_min_(SMALLEST).div_(INPUT_STEPS)
        bytes = (values - low).div_(step).round_().to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            bytes, self.one, self.zero, self.packed, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        product.mul_(step).addr_(low.squeeze(1), self.sums)
        return product if self.bias is None else product.add_(self.bias)


def quantise(encoder: Encoder) -> None:
    """Put eight-bit layers in the place of the linear ones in every layer; embeddings and pooler stay as they are."""
    for parent in list(encoder.layers.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear(child))
