"""Pooling: one vector a sequence, whatever lies around it in the batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.errors import EncoderError
from palbert.model.encoder import Encoder
from palbert.model.pooling import cls, mean, pooler
from palbert.model.pretrained import load_encoder
from palbert.registry import POOLINGS

LENGTHS = [3, 1, 5, 2, 4]


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Path) -> Encoder:
    return load_encoder(tiny_encoder).eval()


@pytest.fixture
def batch() -> PackedBatch:
    starts = torch.tensor([0, *LENGTHS], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    total = sum(LENGTHS)
    return PackedBatch(
        ids=torch.zeros(total, dtype=torch.int32),
        positions=torch.zeros(total, dtype=torch.int32),
        types=torch.zeros(total, dtype=torch.int32),
        starts=starts,
        max_length=max(LENGTHS),
        parts={"first": Part("first", slice(0, 2), slice(0, 4)), "second": Part("second", slice(2, 5), slice(4, 15))},
    )


@pytest.fixture
def hidden(encoder: Encoder) -> Tensor:
    return torch.randn(sum(LENGTHS), encoder.config.hidden_size, generator=torch.Generator().manual_seed(0))


def by_hand(hidden: Tensor, task: str, function: Any) -> Tensor:
    pieces = hidden.split(LENGTHS)
    return torch.stack([function(piece) for piece in (pieces[:2] if task == "first" else pieces[2:])])


@pytest.mark.parametrize("task", ["first", "second"])
def test_cls_takes_the_first_token(encoder: Encoder, batch: PackedBatch, hidden: Tensor, task: str) -> None:
    assert torch.equal(cls(encoder, hidden, batch, batch.parts[task]), by_hand(hidden, task, lambda rows: rows[0]))


@pytest.mark.parametrize("task", ["first", "second"])
def test_mean_averages_all_tokens(encoder: Encoder, batch: PackedBatch, hidden: Tensor, task: str) -> None:
    expected = by_hand(hidden, task, lambda rows: rows.mean(0))
    torch.testing.assert_close(mean(encoder, hidden, batch, batch.parts[task]), expected)


def test_pooler_is_the_encoders_tanh_layer(encoder: Encoder, batch: PackedBatch, hidden: Tensor) -> None:
    assert encoder.pooler is not None
    expected = by_hand(hidden, "second", lambda rows: rows[0]) @ encoder.pooler.weight.T + encoder.pooler.bias
    torch.testing.assert_close(pooler(encoder, hidden, batch, batch.parts["second"]), expected.tanh())


def test_pooler_without_one_is_refused(encoder: Encoder, batch: PackedBatch, hidden: Tensor) -> None:
    bare = Encoder(replace(encoder.config, pooler=False))
    with pytest.raises(EncoderError, match="has no pooler"):
        pooler(bare, hidden, batch, batch.parts["first"])


@pytest.mark.parametrize("name", sorted(POOLINGS))
def test_a_gradient_reaches_only_the_own_tokens(
    encoder: Encoder, batch: PackedBatch, hidden: Tensor, name: str
) -> None:
    leaf = hidden.clone().requires_grad_()
    POOLINGS[name](encoder, leaf, batch, batch.parts["second"]).sum().backward()
    assert leaf.grad is not None
    touched = leaf.grad.abs().sum(1) > 0
    own = torch.arange(15) >= 4 if name == "mean" else torch.isin(torch.arange(15), torch.tensor([4, 9, 11]))
    assert torch.equal(touched, own)
