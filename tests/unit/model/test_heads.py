"""Heads: each is its formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from palbert.model.comparison import compare, compared_size
from palbert.model.heads import MLP, Compare, Concat, ConcatDifference, Cosine, Head, Linear
from palbert.registry import HEADS

HIDDEN = 8


@pytest.fixture
def u() -> Tensor:
    return torch.randn(5, HIDDEN, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def v() -> Tensor:
    return torch.randn(5, HIDDEN, generator=torch.Generator().manual_seed(2))


def affine(layer: Any, values: Tensor) -> Tensor:
    return values @ layer.weight.T + layer.bias


def test_linear_is_one_layer(u: Tensor) -> None:
    head = Linear(HIDDEN, outputs=3, dropout=0.0)
    torch.testing.assert_close(head(u), affine(head.output, u))


def test_mlp_is_two_layers_with_relu(u: Tensor) -> None:
    head = MLP(HIDDEN, outputs=3, dropout=0.0)
    _, first, _, second = head.layers
    torch.testing.assert_close(head(u), affine(second, affine(first, u).clamp(min=0)))


def test_concat_reads_both_vectors(u: Tensor, v: Tensor) -> None:
    head = Concat(HIDDEN, outputs=2, dropout=0.0)
    _, first, _, second = head.layers
    expected = affine(second, affine(first, torch.cat([u, v], 1)).clamp(min=0))
    torch.testing.assert_close(head(u, v), expected)


def test_concat_difference_reads_their_distance_too(u: Tensor, v: Tensor) -> None:
    head = ConcatDifference(HIDDEN, outputs=2, dropout=0.0)
    _, first, _, second = head.layers
    expected = affine(second, affine(first, torch.cat([u, v, (u - v).abs()], 1)).clamp(min=0))
    torch.testing.assert_close(head(u, v), expected)


@pytest.mark.parametrize("scale", [5.0, 2.0])
def test_cosine_is_the_scaled_positive_cosine_of_one_layer(u: Tensor, v: Tensor, scale: float) -> None:
    head = Cosine(HIDDEN, outputs=1, dropout=0.0, scale=scale)
    a, b = affine(head.layer, u), affine(head.layer, v)
    cosine = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))
    torch.testing.assert_close(head(u, v), scale * cosine.clamp(min=0)[:, None])


def test_cosine_is_symmetric_and_highest_for_equal_vectors(u: Tensor, v: Tensor) -> None:
    head = Cosine(HIDDEN, outputs=1, dropout=0.0)
    torch.testing.assert_close(head(u, v), head(v, u))
    torch.testing.assert_close(head(u, u), torch.full((5, 1), 5.0))


@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_head_gives_one_row_per_example(name: str, u: Tensor, v: Tensor) -> None:
    outputs = 1 if name == "cosine" else 4
    head = HEADS[name](HIDDEN, outputs=outputs, dropout=0.1)
    assert head(*((u, v) if head.vectors == 2 else (u,))).shape == (5, outputs)


@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_head_applies_dropout_only_in_training(name: str, u: Tensor, v: Tensor) -> None:
    head = HEADS[name](HIDDEN, outputs=1, dropout=0.5)
    inputs = (u, v) if head.vectors == 2 else (u,)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.equal(head(*inputs), head(*inputs))
    head.eval()
    assert torch.equal(head(*inputs), head(*inputs))


@pytest.mark.parametrize("name", sorted(HEADS))
def test_every_head_takes_the_number_of_vectors_that_it_declares(name: str, u: Tensor) -> None:
    head = HEADS[name](HIDDEN, outputs=1, dropout=0.0)
    with pytest.raises(TypeError, match="argument"):
        head(*[u] * (3 - head.vectors))


@pytest.mark.parametrize(
    ("settings", "scale"),
    [({}, 5.0), ({"label_range": (0.0, 3.0)}, 3.0), ({"label_range": (0.0, 3.0), "scale": 2.0}, 2.0)],
)
def test_cosine_reaches_up_to_the_highest_label(settings: dict[str, Any], scale: float, u: Tensor) -> None:
    head = Cosine(HIDDEN, outputs=1, dropout=0.0, **settings)
    torch.testing.assert_close(head(u, u), torch.full((5, 1), scale))


def test_a_head_without_a_forward_method_cannot_be_constructed() -> None:
    class Empty(Head):
        pass

    with pytest.raises(TypeError, match="forward"):
        Empty()  # type: ignore[abstract]


def test_a_linear_head_starts_as_the_linear_model(u: Tensor) -> None:
    head, weight, bias = (
        Linear(HIDDEN, outputs=3, dropout=0.0),
        np.random.default_rng(0).normal(size=(8, 3)),
        np.ones(3),
    )
    head.start(weight, bias)
    assert head(u).detach().numpy() == pytest.approx(u.numpy() @ weight + bias, abs=1e-5)


def test_a_comparing_head_starts_as_the_linear_model_of_pairs(u: Tensor, v: Tensor) -> None:
    head = Compare(HIDDEN, outputs=2, dropout=0.0)
    weight, bias = np.random.default_rng(0).normal(size=(compared_size(HIDDEN), 2)), np.ones(2)
    head.start(weight, bias)
    assert head(u, v).detach().numpy() == pytest.approx(
        torch.cat(compare(u, v), dim=1).numpy() @ weight + bias, abs=1e-5
    )


def test_a_cosine_head_starts_as_the_plain_cosine(u: Tensor, v: Tensor) -> None:
    head = Cosine(HIDDEN, outputs=1, dropout=0.0, label_range=(0.0, 5.0))
    head.start(np.zeros((1, 1)), np.zeros(1))
    torch.testing.assert_close(head(u, v)[:, 0], 5 * torch.cosine_similarity(u, v).relu())


def test_only_heads_that_say_so_have_a_start(u: Tensor) -> None:
    for name in HEADS:
        head = HEADS[name](HIDDEN, outputs=1, dropout=0.0)
        if not head.starts:
            with pytest.raises(NotImplementedError):
                head.start(np.zeros((8, 1)), np.zeros(1))


@pytest.mark.parametrize("kind", [Linear, MLP])
def test_a_head_that_starts_at_the_mean_adds_it_to_its_answers(kind: type[Head], u: Tensor) -> None:
    torch.manual_seed(0)
    head = kind(HIDDEN, outputs=1, dropout=0.0)
    head.start_at(0.0)
    before = head(u)
    head.start_at(2.5)
    torch.testing.assert_close(head(u), before + 2.5)
