"""PreNormBlock: attention and feed-forward network read normed inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from palbert.model.attention import Sequences
from palbert.model.blocks import PreNormBlock
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

GATED = replace(CONFIG, block="pre-norm", feed_forward="gated", first_attention_norm=False)


@pytest.mark.parametrize("layer", [0, 1])
def test_each_half_reads_a_normed_input_and_adds_to_the_plain_one(layer: int) -> None:
    torch.manual_seed(1)
    block, hidden = PreNormBlock(GATED, layer).eval(), torch.randn(14, 24)
    middle = hidden + block.attend(block.attention_norm(hidden), SEQUENCES)
    activated, gate = block.intermediate(block.norm(middle)).chunk(2, dim=-1)
    torch.testing.assert_close(block(hidden, SEQUENCES), middle + block.output(F.gelu(activated) * gate))
    assert isinstance(block.attention_norm, nn.Identity) == (layer == 0)
    assert PreNormBlock.has_final_norm


def test_dropout_changes_the_added_value_but_not_the_residual() -> None:
    torch.manual_seed(1)
    block, hidden = PreNormBlock(replace(GATED, dropout=0.99999), 1), torch.randn(14, 24)
    torch.testing.assert_close(block(hidden, SEQUENCES), hidden)
