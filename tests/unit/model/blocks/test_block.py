"""Block: linear layers by role that can be replaced, and biases that may be absent."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from palbert.model.attention import Sequences
from palbert.model.blocks import BLOCKS
from palbert.model.config import EncoderConfig

CONFIG = EncoderConfig(
    family="bert",
    vocabulary_size=50,
    hidden_size=24,
    embedding_size=24,
    layers=2,
    heads=3,
    intermediate_size=40,
    max_length=40,
)
SEQUENCES = Sequences(torch.tensor([0, 5, 14], dtype=torch.int32), tokens=14, max_length=9)


@pytest.mark.parametrize("name", BLOCKS)
def test_exactly_the_linear_layers_have_a_role(name: str) -> None:
    block = BLOCKS[name](CONFIG, 0)
    linear = [module for module in block.modules() if isinstance(module, nn.Linear)]
    assert list(block.linear_layers().values()) == linear


@pytest.mark.parametrize("name", BLOCKS)
def test_a_replaced_layer_is_used(name: str) -> None:
    block = BLOCKS[name](CONFIG, 0).eval()
    used = []

    class Watched(nn.Module):
        def __init__(self, layer: nn.Module, role: str) -> None:
            super().__init__()
            self.layer, self.role = layer, role

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            used.append(self.role)
            return self.layer(values)  # type: ignore[no-any-return]

    hidden = torch.randn(14, 24)
    expected = block(hidden, SEQUENCES)
    for role, layer in block.linear_layers().items():
        block.replace_linear(role, Watched(layer, role))
    assert torch.equal(block(hidden, SEQUENCES), expected)
    assert used == list(block.linear_layers())


@pytest.mark.parametrize("name", BLOCKS)
def test_biases_may_be_absent(name: str) -> None:
    bare = replace(CONFIG, attention_bias=False, feed_forward_bias=False, norm_bias=False)
    block = BLOCKS[name](bare, 0)
    assert {name.rpartition(".")[2] for name, _ in block.named_parameters()} == {"weight"}
    assert block(torch.randn(14, 24), SEQUENCES).isfinite().all()


def test_attention_and_feed_forward_may_have_a_bias_independently() -> None:
    block = BLOCKS["post-norm"](replace(CONFIG, attention_bias=False), 0)
    biased = [role for role, layer in block.linear_layers().items() if layer.bias is not None]
    assert biased == ["intermediate", "output"]
