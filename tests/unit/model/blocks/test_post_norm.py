"""PostNormBlock: each sum is normed."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from palbert.model.attention import Sequences
from palbert.model.blocks import PostNormBlock
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


def test_each_half_is_added_to_its_input_and_normed() -> None:
    torch.manual_seed(1)
    block, hidden = PostNormBlock(CONFIG, 0).eval(), torch.randn(14, 24)
    middle = block.attention_norm(hidden + block.attend(hidden, SEQUENCES))
    fed = block.output(F.gelu(block.intermediate(middle)))
    assert torch.equal(block(hidden, SEQUENCES), block.norm(middle + fed))
    assert not PostNormBlock.has_final_norm
