"""Embeddings: the tables that an encoder has, their norm, and the projection to the hidden size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from palbert.model.config import EncoderConfig
from palbert.model.embeddings import Embeddings

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
POSITIONS, TYPES = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 0, 1, 1])


def embeddings_of(**changes: Any) -> Embeddings:
    torch.manual_seed(1)
    embeddings = Embeddings(replace(CONFIG, **changes)).eval()
    for parameter in embeddings.parameters():
        nn.init.normal_(parameter)
    return embeddings


def test_the_sum_of_all_tables_is_normed() -> None:
    embeddings, words = embeddings_of(position_offset=2), torch.randn(4, 24)
    assert embeddings.position is not None and embeddings.token_type is not None
    total = words + embeddings.position.weight[POSITIONS + 2] + embeddings.token_type.weight[TYPES]
    torch.testing.assert_close(embeddings(words, POSITIONS, TYPES), embeddings.norm(total))


def test_rotary_positions_have_no_table() -> None:
    embeddings = embeddings_of(positions="rotary", rotary_bases=(9.0, 9.0), type_vocabulary_size=0, norm_bias=False)
    words = torch.randn(4, 24)
    assert {name for name, _ in embeddings.named_parameters()} == {"word.weight", "norm.weight"}
    assert torch.equal(embeddings(words, POSITIONS, TYPES), embeddings.norm(words))


def test_narrow_tables_are_projected_to_the_hidden_size() -> None:
    embeddings = embeddings_of(embedding_size=10)
    assert embeddings(torch.randn(4, 10), POSITIONS, TYPES).shape == (4, 24)


def test_one_token_type_reads_pairs_as_type_zero() -> None:
    embeddings, words = embeddings_of(type_vocabulary_size=1), torch.randn(4, 24)
    assert torch.equal(embeddings(words, POSITIONS, TYPES), embeddings(words, POSITIONS, torch.zeros_like(TYPES)))


def test_two_token_types_differ() -> None:
    embeddings, words = embeddings_of(), torch.randn(4, 24)
    assert not torch.allclose(embeddings(words, POSITIONS, TYPES), embeddings(words, POSITIONS, 1 - TYPES))
