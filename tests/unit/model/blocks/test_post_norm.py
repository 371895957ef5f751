"""PostNormBlock: each sum is normed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from palbert.model.attention import Sequences
from palbert.model.blocks import PostNormBlock
from palbert.model.config import EncoderConfig
from palbert.model.packed import PackedLinear, can_pack

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


def test_each_half_is_added_to_its_input_and_normed() -> None:
    torch.manual_seed(1)
    block, hidden = PostNormBlock(CONFIG, 0).eval(), torch.randn(14, 24)
    middle = block.attention_norm(hidden + block.attend(hidden, SEQUENCES))
    fed = block.output(F.gelu(block.intermediate(middle)))
    assert torch.equal(block(hidden, SEQUENCES), block.norm(middle + fed))
    assert not PostNormBlock.has_final_norm


@pytest.mark.skipif(not can_pack(), reason="needs an x86 CPU and torch with oneDNN")
@pytest.mark.parametrize("bias", [True, False])
def test_layers_that_add_residuals_themselves_give_the_same_output(bias: bool) -> None:
    torch.manual_seed(1)
    config = replace(CONFIG, attention_bias=bias, feed_forward_bias=bias)
    block, hidden = PostNormBlock(config, 0).eval(), torch.randn(14, 24)
    with torch.inference_mode():
        expected = block(hidden, SEQUENCES)
        for role, layer in block.linear_layers().items():
            assert isinstance(layer, nn.Linear)
            block.replace_linear(role, PackedLinear(layer))
        torch.testing.assert_close(block(hidden, SEQUENCES), expected, rtol=1e-5, atol=1e-5)
