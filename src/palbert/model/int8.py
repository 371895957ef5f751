"""Eight-bit layers: linear layers of the encoder with int8 weights and inputs, for inference on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palbert.model.encoder import Encoder

WEIGHT_STEPS = 127
"""Steps from 0 to the largest weight of an output, in either direction."""
INPUT_STEPS = 255
"""Steps from the lowest value of a token to its highest: oneDNN is fast for unsigned inputs only."""
SMALLEST = 1e-12
"""The least width of a range, so that nothing is divided by 0."""


class Int8Linear(nn.Module):
    """A linear layer that multiplies bytes: x ≈ low + step · bytes, with a low and a step for each token.

    So W · x ≈ step · (W · bytes) + low · (sums of W's rows). With a range per token instead of one for the whole
    batch, the output of a token does not depend on the rest of the batch, and the error is smaller.
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
        quantised = (values - low).div_(step).round_().to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantised, self.one, self.zero, self.packed, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        product.mul_(step).addr_(low.squeeze(1), self.sums)
        return product if self.bias is None else product.add_(self.bias)


def quantise(encoder: Encoder) -> None:
    """Replace the linear layers of all blocks by eight-bit ones; embeddings and pooler stay as they are."""
    for block in encoder.blocks():
        for role, layer in block.linear_layers().items():
            assert isinstance(layer, nn.Linear)
            block.replace_linear(role, Int8Linear(layer))
