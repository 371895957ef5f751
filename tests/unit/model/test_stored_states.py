"""StoredStates: rows of a table in place of an encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from palbert.batch import PackedBatch
from palbert.build import build_model
from palbert.model.pretrained import load_encoder
from palbert.model.stored_states import StoredStates, heads_on_states
from palbert.recipe.load import make_recipe

TABLE = torch.randn(7, 32)


def batch(*ids: int) -> PackedBatch:
    zeros = torch.zeros(len(ids), dtype=torch.int32)
    return PackedBatch(torch.tensor(ids, dtype=torch.int32), zeros, zeros, torch.arange(len(ids) + 1), 1)


def test_states_are_looked_up_by_their_numbers(tiny_encoder: Path) -> None:
    states = StoredStates(TABLE, load_encoder(tiny_encoder))
    assert torch.equal(states(batch(3, 0, 3)), TABLE[[3, 0, 3]])


def test_words_cannot_be_replaced_below_stored_states(tiny_encoder: Path) -> None:
    with pytest.raises(AssertionError, match="cannot be computed with other inputs"):
        StoredStates(TABLE, load_encoder(tiny_encoder))(batch(1), embeddings=torch.zeros(1, 32))


def test_heads_are_those_of_the_model_itself(tiny_encoder: Path) -> None:
    model = build_model(make_recipe({"data": "samples", "tasks": ["sst", "quora"]}).tasks, load_encoder(tiny_encoder))
    reader = heads_on_states(model, TABLE, ["quora"])
    assert list(reader.heads) == ["quora"] and reader.heads["quora"] is model.heads["quora"]
    first = torch.randn(2, 32)
    assert torch.equal(reader.encoder.pool(first), model.encoder.pool(first))
