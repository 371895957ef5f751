"""Eight-bit layers: linear layers of the encoder with int8 weights and inputs, for inference on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palbert.model.encoder import Encoder
from palbert.model.linear import InferenceLinear

WEIGHT_STEPS = 127
"""Steps from 0 to the largest weight of an output, in either direction."""
SMALLEST = 1e-12
"""The least of the largest weights of an output, so that nothing is divided by 0."""


class Int8Linear(InferenceLinear):
    """A linear layer that multiplies bytes: x ≈ low + step · bytes, with a low and a step for each token.

    So W · x ≈ step · (W · bytes) + low · (sums of W's rows). With a range per token instead of one for the whole
    batch, the output of a token does not depend on the rest of the batch, and the error is smaller.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()  # (outputs, inputs)
        self.inputs = weight.shape[1]
        self.scales = weight.abs().amax(1).clamp_min_(SMALLEST).div_(WEIGHT_STEPS)
        rounded = (weight / self.scales[:, None]).round_()
        self.packed = torch.ops.onednn.qlinear_prepack(rounded.to(torch.int8), None)
        self.sums = rounded.sum(1) * self.scales
        self.bias = torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach()
        self.one, self.zero = torch.ones(1), torch.zeros(1, dtype=torch.int32)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)

    def forward(self, values: Tensor) -> Tensor:
        """Map (tokens, inputs) to (tokens, outputs)."""
        return self._add_product(torch.addr(self.bias, values.amin(1), self.sums), values)

    def add_to(self, residual: Tensor, values: Tensor) -> Tensor:
        """Return the residual plus the layer's outputs."""
        return self._add_product(torch.addr(self.bias, values.amin(1), self.sums).add_(residual), values)

    def _add_product(self, total: Tensor, values: Tensor) -> Tensor:
        """Add step · (W · bytes) in place; the lows are part of the total, so that NaN stays NaN."""
        # The kernel that rounds rows of embedding tables; a row's last 8 bytes are its step and its low.
        rows = torch.ops.quantized.embedding_bag_byte_prepack(values)
        steps = rows[:, self.inputs : self.inputs + 4].contiguous().view(torch.float32)  # (tokens, 1)
        product = torch.ops.onednn.qlinear_pointwise(
            rows[:, : self.inputs], self.one, self.zero, self.packed, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return total.addcmul_(product, steps)


def quantise(encoder: Encoder) -> None:
    """Replace the linear layers of all blocks by eight-bit ones; embeddings and pooler stay as they are."""
    for block in encoder.blocks():
        for role, layer in block.linear_layers().items():
            assert isinstance(layer, nn.Linear)
            block.replace_linear(role, Int8Linear(layer))
