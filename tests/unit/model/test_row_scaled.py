"""Row-scaled linear layers: the same outputs, from inputs of one size."""

from __future__ import annotations

from pathlib import Path

import torch

from palbert.model.pretrained import load_encoder
from palbert.model.row_scaled import RowScaledLinear, row_scaled


def test_a_row_scaled_layer_gives_what_the_layer_gives_for_tokens_of_any_size() -> None:
    torch.manual_seed(0)
    for bias in (True, False):
        layer = torch.nn.Linear(6, 4, bias=bias)
        values = torch.randn(5, 6) * torch.tensor([1e-3, 1.0, 1e3, 0.0, 5.0])[:, None]
        torch.testing.assert_close(RowScaledLinear(layer)(values), layer(values))


def test_the_layers_of_an_encoder_are_put_back(tiny_encoder: Path) -> None:
    encoder = load_encoder(tiny_encoder)
    before = [block.linear_layers() for block in encoder.blocks()]
    with row_scaled(encoder):
        assert all(
            isinstance(layer, RowScaledLinear) for block in encoder.blocks() for layer in block.linear_layers().values()
        )
    assert [block.linear_layers() for block in encoder.blocks()] == before
