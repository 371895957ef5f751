"""Relational layers: each is its formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from palbert.errors import PalbertError
from palbert.model.relational import LinearRelation, MLPRelation
from palbert.registry import RELATIONS

HIDDEN = 8


@pytest.fixture
def vectors() -> Tensor:
    return torch.randn(5, HIDDEN, generator=torch.Generator().manual_seed(1))


def test_linear_is_one_layer(vectors: Tensor) -> None:
    relation = LinearRelation(HIDDEN)
    torch.testing.assert_close(relation(vectors), vectors @ relation.layer.weight.T + relation.layer.bias)


@pytest.mark.parametrize("expansion", [1, 3])
def test_mlp_adds_two_layers_with_gelu_to_its_input(vectors: Tensor, expansion: int) -> None:
    relation = MLPRelation(HIDDEN, expansion=expansion)
    first, _, second = relation.layers
    assert first.weight.shape == (expansion * HIDDEN, HIDDEN)
    inner = torch.nn.functional.gelu(vectors @ first.weight.T + first.bias)
    torch.testing.assert_close(relation(vectors), vectors + inner @ second.weight.T + second.bias)


def test_an_inner_layer_without_width_is_refused() -> None:
    with pytest.raises(PalbertError, match="expansion: expected a whole number from 1, found 0"):
        MLPRelation(HIDDEN, expansion=0)


@pytest.mark.parametrize("name", RELATIONS)
def test_every_relation_keeps_the_shape(name: str, vectors: Tensor) -> None:
    assert RELATIONS[name](HIDDEN)(vectors).shape == vectors.shape
