"""RowScaledLinear: a linear layer whose inputs are of one size for each token, as products of bytes need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from palbert.model.encoder import Encoder

SMALLEST = 1e-12
"""The least size of a token, so that nothing is divided by 0."""


class RowScaledLinear(nn.Module):
    """s · W · (x / s) + b with the largest number of each token as s: the same as W · x + b.

    An engine that rounds x to bytes for a whole batch has one step for all tokens. Without the division, tokens with
    small numbers would be rounded as coarsely as those with large ones, and every text in the light of the others.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().t(), requires_grad=False)  # as the operator MatMul reads it
        self.bias = layer.bias

    def forward(self, values: Tensor) -> Tensor:
        """Map (tokens, inputs) to (tokens, outputs)."""
        sizes = values.abs().amax(1, keepdim=True).clamp_min(SMALLEST)
        product = (values / sizes) @ self.weight * sizes
        return product if self.bias is None else product + self.bias


@contextmanager
def row_scaled(encoder: Encoder) -> Iterator[None]:
    """Put row-scaled layers in the place of all linear layers of the blocks inside the context."""
    former = [(block, block.linear_layers()) for block in encoder.blocks()]
    try:
        for block, layers in former:
            for role, layer in layers.items():
                assert isinstance(layer, nn.Linear)
                block.replace_linear(role, RowScaledLinear(layer))
        yield
    finally:
        for block, layers in former:
            for role, layer in layers.items():
                block.replace_linear(role, layer)
