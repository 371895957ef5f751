"""Poolings: one vector per sequence, independent of the rest of the batch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.errors import PalbertError
from palbert.model.pooling import Attention, Cls, Mean, Pooler, Pooling
from palbert.registry import POOLINGS

LENGTHS = [3, 1, 5, 2, 4]
HIDDEN = 24


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
        parts={
            "first": Part("first", sequences=slice(0, 2), tokens=slice(0, 4)),
            "second": Part("second", sequences=slice(2, 5), tokens=slice(4, 15)),
            "filled": Part("filled", sequences=slice(2, 3), tokens=slice(4, 15), filling=2),
        },
    )


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(sum(LENGTHS), HIDDEN, generator=torch.Generator().manual_seed(0))


def trained(name: str) -> Pooling:
    """Make a pooling with weights that are not those of a new one."""
    pooling: Pooling = POOLINGS[name](HIDDEN)
    for parameter in pooling.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    return pooling


def by_hand(hidden: Tensor, part: str, function: Callable[[Tensor], Tensor]) -> Tensor:
    pieces = hidden.split(LENGTHS)
    own = {"first": pieces[:2], "second": pieces[2:], "filled": pieces[2:3]}[part]
    return torch.stack([function(piece) for piece in own])


PARTS = pytest.mark.parametrize("part", ["first", "second", "filled"])


@PARTS
@pytest.mark.parametrize("pooling", [Cls, Pooler])
def test_cls_and_pooler_take_the_first_token(
    batch: PackedBatch, hidden: Tensor, part: str, pooling: type[Pooling]
) -> None:
    assert torch.equal(pooling(HIDDEN)(hidden, batch, batch.parts[part]), by_hand(hidden, part, lambda rows: rows[0]))


def test_only_the_pooler_uses_the_encoders_own_layer() -> None:
    assert [name for name, pooling in POOLINGS.items() if pooling.through_pooler] == ["pooler"]


@PARTS
def test_mean_averages_all_tokens(batch: PackedBatch, hidden: Tensor, part: str) -> None:
    expected = by_hand(hidden, part, lambda rows: rows.mean(0))
    torch.testing.assert_close(Mean(HIDDEN)(hidden, batch, batch.parts[part]), expected)


@PARTS
def test_attention_averages_by_the_softmax_of_its_scores(batch: PackedBatch, hidden: Tensor, part: str) -> None:
    pooling = trained("attention")
    assert isinstance(pooling, Attention)
    expected = by_hand(hidden, part, lambda rows: (rows @ pooling.weight).softmax(0) @ rows)
    torch.testing.assert_close(pooling(hidden, batch, batch.parts[part]), expected)


def test_a_new_attention_pooling_is_the_mean(batch: PackedBatch, hidden: Tensor) -> None:
    part = batch.parts["second"]
    torch.testing.assert_close(Attention(HIDDEN)(hidden, batch, part), Mean(HIDDEN)(hidden, batch, part))


def test_attention_has_the_gradient_of_the_softmax(batch: PackedBatch, hidden: Tensor) -> None:
    pooling = trained("attention")
    assert isinstance(pooling, Attention)
    target = torch.randn(3, HIDDEN, generator=torch.Generator().manual_seed(2))
    states = hidden.clone().requires_grad_()
    (pooling(states, batch, batch.parts["second"]) * target).sum().backward()
    twin, same = copy.deepcopy(pooling), hidden.clone().requires_grad_()
    twin.zero_grad()
    (by_hand(same, "second", lambda rows: (rows @ twin.weight).softmax(0) @ rows) * target).sum().backward()
    torch.testing.assert_close(states.grad, same.grad)
    torch.testing.assert_close(pooling.weight.grad, twin.weight.grad)


def test_attention_does_not_overflow(batch: PackedBatch, hidden: Tensor) -> None:
    pooling = trained("attention")
    vectors = pooling(1000 * hidden, batch, batch.parts["second"])
    assert vectors.isfinite().all()


def test_attention_drops_weights_only_in_training(batch: PackedBatch, hidden: Tensor) -> None:
    torch.manual_seed(0)
    pooling, part = Attention(HIDDEN, dropout=0.5), batch.parts["second"]
    assert not torch.equal(pooling(hidden, batch, part), Mean(HIDDEN)(hidden, batch, part))
    torch.testing.assert_close(pooling.eval()(hidden, batch, part), Mean(HIDDEN)(hidden, batch, part))
    with pytest.raises(PalbertError, match="dropout: expected a number from 0 and below 1, found 1"):
        Attention(HIDDEN, dropout=1)


@pytest.mark.parametrize("name", sorted(POOLINGS))
def test_a_gradient_reaches_only_the_tokens_of_its_part(batch: PackedBatch, hidden: Tensor, name: str) -> None:
    leaf = hidden.clone().requires_grad_()
    trained(name)(leaf, batch, batch.parts["second"]).sum().backward()
    assert leaf.grad is not None
    touched = leaf.grad.abs().sum(1) > 0
    first = torch.isin(torch.arange(15), torch.tensor([4, 9, 11]))
    assert torch.equal(touched, first if name in ("cls", "pooler") else torch.arange(15) >= 4)


@pytest.mark.parametrize("name", sorted(POOLINGS))
def test_vectors_are_in_single_precision(batch: PackedBatch, hidden: Tensor, name: str) -> None:
    vectors = trained(name)(hidden.bfloat16(), batch, batch.parts["second"])
    assert vectors.dtype is torch.float32 and vectors.shape == (3, HIDDEN)
