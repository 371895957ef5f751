"""SelfAttention: heads, rotary positions and the window of its own layer."""

from __future__ import annotations

from dataclasses import replace

import torch

from palbert.model.attention import Sequences, attend
from palbert.model.attention.self_attention import SelfAttention
from palbert.model.config import EncoderConfig
from palbert.model.positions.rotary import Rotation

PLAIN = EncoderConfig(
    family="bert",
    vocabulary_size=50,
    hidden_size=24,
    embedding_size=24,
    layers=2,
    heads=3,
    intermediate_size=40,
    max_length=40,
    attention_dropout=0.3,
)
ROTARY = replace(PLAIN, positions="rotary", rotary_bases=(50.0, 7.0), windows=(0, 2))
STARTS = torch.tensor([0, 5, 14], dtype=torch.int32)
SEQUENCES = Sequences(STARTS, tokens=14, max_length=9)


def test_heads_divide_the_width() -> None:
    projected = torch.randn(14, 72)
    found = SelfAttention(PLAIN, 0).eval()(projected, SEQUENCES)
    assert torch.equal(found, attend(projected.view(14, 3, 3, 8), SEQUENCES).flatten(1))


def test_each_layer_has_its_own_angles_and_window() -> None:
    projected = torch.randn(14, 72)
    positions = torch.cat([torch.arange(5), torch.arange(9)])
    rotations = {base: Rotation.of(positions, base=base, width=8) for base in ROTARY.rotary_bases}
    sequences = replace(SEQUENCES, rotations=rotations)
    for layer, (base, window) in enumerate(zip(ROTARY.rotary_bases, ROTARY.windows, strict=True)):
        fused = rotations[base](projected.view(14, 3, 3, 8))
        expected = attend(fused, SEQUENCES.within(window)).flatten(1)
        assert torch.equal(SelfAttention(ROTARY, layer).eval()(projected, sequences), expected)


def test_dropout_of_probabilities_is_applied_only_in_training() -> None:
    attention, projected = SelfAttention(PLAIN, 0), torch.randn(14, 72)
    assert not torch.equal(attention(projected, SEQUENCES), attention(projected, SEQUENCES))
    attention.eval()
    assert torch.equal(attention(projected, SEQUENCES), attention(projected, SEQUENCES))
