"""Fixtures of the tests of adapters: small encoders, and a layer computed by hand for one sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.model.adapters import Adapter, AdapterBranches
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder

SIZE, LAYERS, TOKENS = 24, 2, 7
SHAPE: dict[str, Any] = {
    "family": "bert",
    "vocabulary_size": 50,
    "hidden_size": SIZE,
    "embedding_size": SIZE,
    "layers": LAYERS,
    "heads": 3,
    "intermediate_size": 40,
    "max_length": 40,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "initializer_range": 0.2,
}
PRE_NORM: dict[str, Any] = {
    "block": "pre-norm",
    "positions": "rotary",
    "rotary_bases": (100.0, 10.0),
    "windows": (0, 3),
    "feed_forward": "gated",
    "norm_bias": False,
    "attention_bias": False,
    "feed_forward_bias": False,
}
Step = Callable[[int, Any, Tensor], Tensor]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(3)


@pytest.fixture
def post_norm() -> Encoder:
    """Return an encoder like BERT."""
    return Encoder(EncoderConfig(**SHAPE))


@pytest.fixture(params=[{}, PRE_NORM], ids=["post-norm", "pre-norm"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Return an encoder like BERT, or one like ModernBERT."""
    return Encoder(EncoderConfig(**{**SHAPE, **request.param}))


@pytest.fixture
def one_sequence() -> PackedBatch:
    """Return a batch of one sequence of task a."""
    return PackedBatch(
        ids=torch.randint(50, (TOKENS,)),
        positions=torch.arange(TOKENS),
        types=torch.zeros(TOKENS, dtype=torch.long),
        starts=torch.tensor([0, TOKENS], dtype=torch.int32),
        max_length=TOKENS,
        parts={"a": Part("a", slice(0, 1), slice(0, TOKENS))},
    )


@pytest.fixture
def filled() -> Callable[[Adapter], Adapter]:
    """Return a function that fills an adapter at random, as if it had been trained."""

    def fill(adapter: Adapter) -> Adapter:
        for parameter in adapter.parameters():
            nn.init.normal_(parameter, std=0.3)
        return adapter

    return fill


@pytest.fixture
def plain_layer() -> Callable[..., Tensor]:
    """Return a function that computes a post-norm layer without its last norm, with an adapter put in by hand."""

    def compute(layer: Any, hidden: Tensor, *, fed: Any = None) -> Tensor:
        fused = layer.query_key_value(hidden).view(len(hidden), 3, layer.self_attention.heads, -1)
        query, key, value = fused.permute(1, 2, 0, 3)  # (heads, tokens, width)
        weights = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(-1)
        mixed = layer.attention_output((weights @ value).transpose(0, 1).flatten(1))
        first, second = fed or (lambda x: x, lambda x: x)
        middle = layer.attention_norm(hidden + first(mixed))
        return middle + second(layer.output(F.gelu(layer.intermediate(middle))))  # type: ignore[no-any-return]

    return compute


@pytest.fixture
def check(post_norm: Encoder, one_sequence: PackedBatch) -> Callable[[Adapter, Step], None]:
    """Return a function that compares an adapter with a formula for each layer before its last norm."""

    def compare(adapter: Adapter, step: Step) -> None:
        batch = one_sequence
        hidden = post_norm.embeddings(post_norm.word_embeddings(batch.ids), batch.positions, batch.types)
        for number, layer in enumerate(post_norm.blocks()):
            hidden = layer.norm(step(number, layer, hidden))
        found = post_norm(batch, branches=AdapterBranches({"a": adapter}, batch))
        torch.testing.assert_close(found, hidden, rtol=1e-5, atol=1e-5)

    return compare
