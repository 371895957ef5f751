"""Weights of checkpoints: they load as they were written, and those that do not fit are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.errors import EncoderError
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.families import checkpoint_names, convert, export, plain_names, read_config
from palbert.registry import FAMILIES

SETTINGS = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 20,
    "dim": 8,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 12,
    "type_vocab_size": 2,
    "embedding_size": 6,
}


def settings_of(family: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": family, **SETTINGS, **changes}


def config_of(family: str, **changes: Any) -> EncoderConfig:
    return read_config(settings_of(family, **changes), pooler=True, where="config.json")


def weights_of(encoder: Encoder) -> dict[str, Tensor]:
    """Write an encoder's weights as a checkpoint of its family has them."""
    state = encoder.state_dict()
    weights: dict[str, Tensor] = {}
    for ours, parts in checkpoint_names(encoder).items():
        weights.update(zip(parts, state[ours].chunk(len(parts)), strict=True))
    return weights


def load(encoder: Encoder, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    family = FAMILIES[encoder.config.family]
    return convert(encoder, plain_names(family, weights, where="folder"), where="folder")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prefixed", [False, True])
def test_weights_are_loaded_as_they_were_written(family: str, prefixed: bool) -> None:
    encoder = Encoder(config_of(family))
    prefix = FAMILIES[family].prefix if prefixed else ""
    state = load(encoder, {prefix + name: tensor for name, tensor in weights_of(encoder).items()})
    assert state.keys() == encoder.state_dict().keys()
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(state[name], tensor)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_export_is_a_checkpoint_with_the_prefix_of_the_family(family: str) -> None:
    encoder = Encoder(config_of(family))
    exported = export(encoder)
    assert all(name.startswith(FAMILIES[family].prefix) for name in exported)
    state = load(encoder, exported)
    assert all(torch.equal(state[name], tensor) for name, tensor in encoder.state_dict().items())


def test_half_precision_weights_become_float32() -> None:
    encoder = Encoder(config_of("bert"))
    state = load(encoder, {name: tensor.half() for name, tensor in weights_of(encoder).items()})
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}


def test_old_names_of_norms_are_accepted() -> None:
    encoder = Encoder(config_of("bert"))
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in weights_of(encoder).items()
    }
    assert "embeddings.LayerNorm.gamma" in old
    assert load(encoder, old).keys() == encoder.state_dict().keys()


@pytest.mark.parametrize(
    "name",
    [
        "cls.predictions.bias",
        "cls.seq_relationship.weight",
        "lm_head.dense.weight",
        "classifier.out_proj.weight",
        "qa_outputs.bias",
        "discriminator_predictions.dense.weight",
        "generator_lm_head.weight",
        "pre_classifier.weight",
        "vocab_projector.bias",
        "embeddings.position_ids",
        "bert.embeddings.position_ids",
    ],
)
def test_unused_heads_and_buffers_are_accepted(name: str) -> None:
    encoder = Encoder(config_of("bert"))
    assert load(encoder, {**weights_of(encoder), name: torch.zeros(3)}).keys() == encoder.state_dict().keys()


def test_a_missing_weight_is_named_with_its_family() -> None:
    encoder = Encoder(config_of("mpnet"))
    weights = weights_of(encoder)
    del weights["encoder.layer.1.attention.attn.k.weight"]
    with pytest.raises(
        EncoderError, match=r"folder: .*mpnet encoder.*missing: encoder\.layer\.1\.attention\.attn\.k\.weight\."
    ):
        load(encoder, weights)


def test_an_unknown_weight_inside_of_the_encoder_is_refused_with_its_name() -> None:
    encoder = Encoder(config_of("bert"))
    with pytest.raises(EncoderError, match=r"bert encoder\. left over: encoder\.layer\.9\.gate\."):
        load(encoder, {**weights_of(encoder), "encoder.layer.9.gate": torch.zeros(1), "lonely": torch.zeros(1)})


@pytest.mark.parametrize("prefix", ["", "bert.", "model.", "0.auto_model.", "module.bert.", "model.encoder_q."])
def test_an_encoder_inside_of_other_modules_is_found(prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    encoder = Encoder(config_of("bert"))
    weights = {prefix + name: tensor for name, tensor in weights_of(encoder).items()}
    state = load(encoder, {**weights, "span_scorer.weight": torch.zeros(3), "cls.predictions.bias": torch.zeros(3)})
    assert all(torch.equal(state[name], tensor) for name, tensor in encoder.state_dict().items())
    assert [record.getMessage() for record in caplog.records] == [
        "folder: not part of the encoder, and not used: span_scorer.weight"
    ]


def test_several_encoders_in_one_file_are_refused_with_their_prefixes() -> None:
    encoder = Encoder(config_of("bert"))
    both = {prefix + name: tensor for name, tensor in weights_of(encoder).items() for prefix in ("query.", "document.")}
    with pytest.raises(EncoderError, match=r"several encoders, whose names begin with 'document\.', 'query\.'"):
        load(encoder, both)


def test_an_incomplete_encoder_behind_a_prefix_is_refused_with_the_missing_names() -> None:
    encoder = Encoder(config_of("bert"))
    weights = {f"model.{name}": tensor for name, tensor in weights_of(encoder).items()}
    del weights["model.encoder.layer.0.output.dense.weight"]
    with pytest.raises(EncoderError, match=r"missing: encoder\.layer\.0\.output\.dense\.weight\."):
        load(encoder, weights)


def test_two_weights_of_one_name_are_refused() -> None:
    encoder = Encoder(config_of("bert"))
    weights = weights_of(encoder)
    with pytest.raises(EncoderError, match=r"'embeddings\.LayerNorm\.weight' occurs twice"):
        load(encoder, {**weights, "embeddings.LayerNorm.gamma": torch.zeros(8)})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_that_are_not_finite_are_refused(value: float, dtype: torch.dtype) -> None:
    encoder = Encoder(config_of("bert"))
    weights = {name: tensor.detach().to(dtype) for name, tensor in weights_of(encoder).items()}
    weights["encoder.layer.0.output.dense.bias"][3] = value
    with pytest.raises(EncoderError, match=r"not finite numbers: encoder\.layer\.0\.output\.dense\.bias"):
        load(encoder, weights)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.complex64])
def test_weights_that_are_not_floating_point_numbers_are_refused(dtype: torch.dtype) -> None:
    encoder = Encoder(config_of("bert"))
    weights = weights_of(encoder)
    weights["pooler.dense.bias"] = weights["pooler.dense.bias"].detach().to(dtype)
    with pytest.raises(EncoderError, match=r"not floating-point numbers: pooler\.dense\.bias is torch\."):
        load(encoder, weights)


def test_only_some_of_many_missing_weights_are_named() -> None:
    encoder = Encoder(config_of("bert"))
    wanted = len(weights_of(encoder))
    with pytest.raises(EncoderError, match=f"missing: .* and {wanted - 8} more") as caught:
        load(encoder, {})
    assert caught.value.message.count(",") == 7


def test_a_wrong_shape_is_shown_with_the_expected_one() -> None:
    encoder = Encoder(config_of("bert"))
    name = "encoder.layer.0.attention.self.key.weight"
    with pytest.raises(EncoderError, match=rf"{name} is \(8, 7\) and not \(8, 8\)"):
        load(encoder, {**weights_of(encoder), name: torch.zeros(8, 7)})
