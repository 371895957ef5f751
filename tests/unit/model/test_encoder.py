"""The encoder: laws that hold for every combination of parts."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.errors import EncoderError
from palbert.model.activations import ACTIVATIONS
from palbert.model.attention.self_attention import SelfAttention
from palbert.model.config import EncoderConfig
from palbert.model.dropout import Dropout
from palbert.model.encoder import Encoder
from palbert.model.linear import Linear

CONFIG = EncoderConfig(
    family="bert",
    vocabulary_size=50,
    hidden_size=24,
    embedding_size=24,
    layers=2,
    heads=3,
    intermediate_size=40,
    max_length=40,
    pooler=True,
    initializer_range=0.2,
)
KINDS: dict[str, dict[str, Any]] = {
    "table": {},
    "relative": {"relative_buckets": 32},
    "narrow embeddings": {"embedding_size": 16},
    "rotary": {
        "block": "pre-norm",
        "feed_forward": "gated",
        "positions": "rotary",
        "rotary_bases": (50.0, 9.0),
        "windows": (0, 3),
        "first_attention_norm": False,
        "type_vocabulary_size": 0,
        "attention_bias": False,
        "feed_forward_bias": False,
        "norm_bias": False,
        "pooler": False,
    },
}
kinds = pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)


def pack(lengths: list[int], *, types: int = 2) -> PackedBatch:
    tokens = sum(lengths)
    return PackedBatch(
        ids=torch.randint(50, (tokens,)),
        positions=torch.cat([torch.arange(length) for length in lengths]),
        types=torch.randint(types, (tokens,)),
        starts=torch.tensor([0, *lengths]).cumsum(0).int(),
        max_length=max(lengths),
    )


def encoder_of(**changes: Any) -> Encoder:
    torch.manual_seed(2)
    return Encoder(replace(CONFIG, **changes))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def test_a_sequence_without_positions_is_refused() -> None:
    with pytest.raises(EncoderError, match="at most 40 tokens, found one of 41"):
        encoder_of()(pack([3, 41]))


def test_using_the_pooler_of_an_encoder_without_one_is_refused() -> None:
    with pytest.raises(EncoderError, match="no pooler"):
        encoder_of(pooler=False).pool(torch.zeros(2, 24))


def test_the_pooler_is_a_dense_tanh_layer() -> None:
    encoder, first = encoder_of(), torch.randn(3, 24)
    assert encoder.pooler is not None
    expected = torch.tanh(first @ encoder.pooler.weight.t() + encoder.pooler.bias)
    torch.testing.assert_close(encoder.pool(first), expected)


def test_random_weights_have_the_configured_spread() -> None:
    encoder = encoder_of(vocabulary_size=5000, initializer_range=0.05)
    assert encoder.embeddings.word.weight.std().item() == pytest.approx(0.05, rel=0.05)
    for module in encoder.modules():
        if isinstance(module, nn.Linear):
            assert not module.bias.any()
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert not module.bias.any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_encoder_runs_with_every_activation(activation: str) -> None:
    assert encoder_of(activation=activation)(pack([4, 2])).isfinite().all()


def test_embeddings_in_place_of_ids_equal_ids() -> None:
    encoder, batch = encoder_of(embedding_size=16).eval(), pack([5, 3])
    words = encoder.word_embeddings(batch.ids)
    assert words.shape == (8, 16)
    assert torch.equal(encoder(batch, embeddings=words), encoder(batch))


def test_the_gradient_reaches_embeddings_in_place_of_ids() -> None:
    encoder, batch = encoder_of(), pack([5, 3])
    words = encoder.word_embeddings(batch.ids).detach().requires_grad_()
    encoder(batch, embeddings=words)[:5].square().sum().backward()
    assert words.grad is not None
    assert words.grad[:5].abs().sum(1).all()
    assert not words.grad[5:].any()  # the other sequence


@kinds
def test_a_batch_equals_its_sequences_one_by_one(changes: dict[str, Any]) -> None:
    encoder, lengths = encoder_of(**changes).eval(), [5, 40, 1, 17]
    batch = pack(lengths)
    together = encoder(batch).split(lengths)
    for number, (begin, length) in enumerate(zip(batch.starts.tolist(), lengths, strict=False)):
        part = slice(begin, begin + length)
        alone = PackedBatch(
            ids=batch.ids[part],
            positions=batch.positions[part],
            types=batch.types[part],
            starts=torch.tensor([0, length], dtype=torch.int32),
            max_length=length,
        )
        torch.testing.assert_close(together[number], encoder(alone), atol=1e-5, rtol=1e-5)


@kinds
def test_unused_sequence_slots_change_nothing(changes: dict[str, Any]) -> None:
    encoder, batch = encoder_of(**changes).eval(), pack([5, 9, 3])
    padded = replace(batch, starts=torch.cat([batch.starts, batch.starts[-1:].repeat(3)]))
    assert torch.equal(encoder(batch), encoder(padded))


@pytest.mark.parametrize("name", ["dropout", "attention_dropout"])
def test_each_dropout_makes_training_passes_differ(name: str) -> None:
    rates = {"dropout": 0.0, "attention_dropout": 0.0} | {name: 0.1}
    encoder, batch = encoder_of(**rates), pack([5, 9])
    assert not torch.equal(encoder(batch), encoder(batch))
    encoder.eval()
    assert torch.equal(encoder(batch), encoder(batch))


def test_training_without_dropout_equals_evaluation() -> None:
    encoder, batch = encoder_of(dropout=0.0, attention_dropout=0.0), pack([5, 9])
    assert torch.equal(encoder.train()(batch), encoder.eval()(batch))


def test_a_temporary_dropout_equals_an_encoder_with_it_and_is_undone() -> None:
    batch = pack([4, 7])
    encoder, other = encoder_of(dropout=0.0, attention_dropout=0.3), encoder_of(dropout=0.5, attention_dropout=0.5)

    def encoded(encoder: Encoder) -> Tensor:
        torch.manual_seed(3)
        output: Tensor = encoder(batch)
        return output

    before = encoded(encoder)
    with encoder.with_dropout(0.5):
        assert torch.equal(encoded(encoder), encoded(other))
        assert torch.equal(encoded(encoder.eval()), encoded(other.eval()))
    assert torch.equal(encoded(encoder.train()), before)


def test_a_temporary_dropout_is_undone_after_an_exception() -> None:
    encoder = encoder_of(dropout=0.1, attention_dropout=0.3)
    with pytest.raises(ZeroDivisionError), encoder.with_dropout(0.5):
        assert {module.probability for module in encoder.modules() if isinstance(module, SelfAttention)} == {0.5}
        raise ZeroDivisionError
    assert {module.probability for module in encoder.modules() if isinstance(module, SelfAttention)} == {0.3}
    assert {module.probability for module in encoder.modules() if isinstance(module, Dropout)} == {0.1}


@kinds
@pytest.mark.parametrize("pooler", [False, True])
def test_parts_hold_every_parameter_once_and_in_order(changes: dict[str, Any], pooler: bool) -> None:
    encoder = encoder_of(**{**changes, "pooler": pooler})
    parts = list(encoder.parts())
    held = [id(parameter) for _, _, module in parts for parameter in module.parameters()]
    assert held == [id(parameter) for parameter in encoder.parameters()]
    above = {name: number for name, number, _ in parts}
    layers = len(encoder.layers)
    assert [above[f"layers.{number}"] for number in range(layers)] == list(reversed(range(layers)))
    assert above["embeddings"] == above.get("relative", layers) == layers
    assert above.get("pooler", 0) == above.get("final_norm", 0) == 0
    assert ("final_norm" in above) == (encoder.config.block == "pre-norm")


@kinds
def test_linear_layers_are_listed_completely_and_by_name(changes: dict[str, Any]) -> None:
    encoder = encoder_of(**changes)
    named = {name: module for name, module in encoder.named_modules() if isinstance(module, nn.Linear)}
    assert encoder.linear_layers() == named


@kinds
def test_gradients_of_all_parts_can_be_split_except_those_of_foreign_classes(changes: dict[str, Any]) -> None:
    class Stranger(Linear):
        pass

    encoder = encoder_of(**changes)
    assert encoder.unsplittable() == []
    encoder.layers[1].output = Stranger(40, 24)
    assert encoder.unsplittable() == ["Stranger"]


@kinds
def test_every_parameter_is_trained(changes: dict[str, Any]) -> None:
    encoder, batch = encoder_of(**{**changes, "pooler": False}), pack([5, 9])
    (encoder(batch) * torch.randn(14, 24)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in encoder.parameters())


@kinds
def test_a_pass_never_reads_a_number_from_the_device(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the meta device there are no numbers to read: any wait for the device fails."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # torch has none for that device
    encoder, batch = Encoder.without_weights(replace(CONFIG, **changes)), pack([5, 9]).to("meta")
    output = encoder(batch)
    output.sum().backward()
    assert output.is_meta and output.shape == (14, CONFIG.hidden_size)


@pytest.mark.parametrize("name", ["block", "feed_forward", "norm", "positions"])
def test_an_unknown_part_is_named(name: str) -> None:
    with pytest.raises(EncoderError, match=f"Unknown {name} 'plainer' of an encoder"):
        encoder_of(**{name: "plainer"})


def test_names_and_order_of_parameters_match_existing_checkpoints() -> None:
    """Checkpoints name weights, and store the optimizer's state by their order: neither may change."""
    names = [name for name, _ in encoder_of(layers=1, relative_buckets=32, embedding_size=16).named_parameters()]
    layer = ("query_key_value", "attention_output", "attention_norm", "intermediate", "output", "norm")
    assert names == [
        *(f"embeddings.{table}.weight" for table in ("word", "position", "token_type")),
        *(f"embeddings.{module}.{kind}" for module in ("norm", "project") for kind in ("weight", "bias")),
        *(f"layers.0.{module}.{kind}" for module in layer for kind in ("weight", "bias")),
        "relative.weight",
        "pooler.weight",
        "pooler.bias",
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@kinds
def test_mixed_precision_on_a_gpu_is_close_to_full_precision(changes: dict[str, Any]) -> None:
    encoder = encoder_of(**changes, dropout=0.0, attention_dropout=0.0).to("cuda")
    batch = pack([5, 1, 30, 12]).to("cuda")
    gradients = []
    for enabled in (False, True):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=enabled):
            hidden = encoder(batch)
        hidden[:, 0].float().sum().backward()  # a norm's sum of squares has no gradient
        gradients.append(torch.cat([p.grad.flatten() for p in encoder.layers.parameters() if p.grad is not None]))
        encoder.zero_grad()
    assert (gradients[0] - gradients[1]).norm() <= 0.1 * gradients[0].norm()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@kinds
def test_two_passes_with_dropout_from_one_seed_are_the_same_on_a_gpu(changes: dict[str, Any]) -> None:
    encoder = encoder_of(**changes).to("cuda")
    batch = pack([5, 1, 30, 12]).to("cuda")
    gradients = []
    for _ in range(2):
        torch.manual_seed(5)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = encoder(batch)
        hidden.float().square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in encoder.parameters() if p.grad is not None]))
        encoder.zero_grad()
    assert torch.equal(*gradients)
