"""Settings of checkpoints: from a config.json to a configuration, and what is not supported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from palbert.errors import EncoderError
from palbert.model.config import EncoderConfig
from palbert.model.families import Family, read_config, write_config
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


def test_an_unknown_model_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        EncoderError, match=r"config\.json: .*'robert'.*Known: bert, .*Did you mean '(ro)?bert"
    ) as caught:
        config_of("robert")
    assert all(family in str(caught.value) for family in FAMILIES)


@pytest.mark.parametrize("key", ["model_type", "vocab_size", "hidden_size", "max_position_embeddings"])
def test_a_missing_setting_is_named(key: str) -> None:
    with pytest.raises(EncoderError, match=rf"config\.json: no '{key}'"):
        config_of("bert", **{key: None})


@pytest.mark.parametrize("value", ["12", 1.5, -1, True, [12], {}, float("nan")])
@pytest.mark.parametrize("key", ["vocab_size", "num_attention_heads", "max_position_embeddings", "pad_token_id"])
def test_a_size_that_is_not_a_whole_number_is_refused(key: str, value: Any) -> None:
    with pytest.raises(EncoderError, match=r"config\.json: .*expected a whole number from"):
        config_of("roberta", **{key: value})


@pytest.mark.parametrize("changes", [{"model_type": ["bert"]}, {"hidden_act": ["gelu"]}, {"layer_norm_eps": "1e-5"}])
def test_a_setting_of_another_type_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EncoderError, match=r"config\.json: "):
        config_of("bert", **changes)


def test_relative_positions_inside_bert_are_refused() -> None:
    with pytest.raises(EncoderError, match="position_embedding_type 'absolute', found 'relative_key'"):
        config_of("bert", position_embedding_type="relative_key")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("is_encoder_decoder", True),
        ("pruned_heads", {"0": [1]}),
        ("quantization_config", {"load_in_8bit": True}),
        ("type_vocab_size", 0),
    ],
)
def test_settings_that_compute_something_else_are_refused(key: str, value: Any) -> None:
    with pytest.raises(EncoderError, match=rf"config\.json: {key} is "):
        config_of("bert", **{key: value})


@pytest.mark.parametrize(("key", "value"), [("is_decoder", False), ("add_cross_attention", None), ("pruned_heads", {})])
def test_settings_of_encoders_are_accepted(key: str, value: Any) -> None:
    assert config_of("bert", **{key: value}) == config_of("bert")


@pytest.mark.parametrize("family", sorted(FAMILIES.paths))
@pytest.mark.parametrize("ours", ["layers", "hidden_size", "vocabulary_size", "intermediate_size", "heads"])
def test_an_absurd_size_is_refused_at_once(family: str, ours: str) -> None:
    with pytest.raises(EncoderError, match=r"config\.json: .*expected a whole number from 1 to"):
        config_of(family, **{FAMILIES[family].settings[ours]: 10**9})


@pytest.mark.parametrize("buckets", [1, 3, 512])
def test_buckets_without_distances_are_refused(buckets: int) -> None:
    with pytest.raises(EncoderError, match="relative_buckets: expected 0, or from 4 to 511"):
        config_of("mpnet", relative_attention_num_buckets=buckets)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(EncoderError, match="activation 'mish'"):
        config_of("roberta", hidden_act="mish")


@pytest.mark.parametrize("family", FAMILIES)
def test_only_families_with_a_pooler_get_one(family: str) -> None:
    assert config_of(family).pooler == (family not in ("distilbert", "electra", "modernbert"))
    assert not read_config(settings_of(family), pooler=False, where="").pooler


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "camembert", "mpnet"])
def test_positions_start_after_the_padding_token(family: str) -> None:
    config = config_of(family, pad_token_id=3)
    assert (config.position_offset, config.max_length) == (4, 16)
    assert config_of(family).position_offset == 2


def test_settings_missing_from_config_json_have_the_usual_values() -> None:
    bert, mpnet, distilbert = config_of("bert"), config_of("mpnet"), config_of("distilbert")
    assert (bert.activation, bert.norm_epsilon, bert.dropout, bert.attention_dropout) == ("gelu", 1e-12, 0.1, 0.1)
    assert (bert.relative_buckets, mpnet.relative_buckets) == (0, 32)
    assert (mpnet.type_vocabulary_size, distilbert.type_vocabulary_size) == (0, 0)
    assert bert.embedding_size == bert.hidden_size


def test_settings_in_config_json_are_used() -> None:
    said = {"hidden_act": "relu", "layer_norm_eps": 1e-5, "hidden_dropout_prob": 0.2, "type_vocab_size": 1}
    expected = replace(config_of("roberta"), activation="relu", norm_epsilon=1e-5, dropout=0.2, type_vocabulary_size=1)
    assert config_of("roberta", **said) == expected


@pytest.mark.parametrize("family", sorted(FAMILIES.paths))
@pytest.mark.parametrize("changes", [{}, {"hidden_dropout_prob": 0.3, "pad_token_id": 3, "initializer_range": 0.5}])
def test_a_written_config_is_read_as_it_was(family: str, changes: dict[str, Any]) -> None:
    config = config_of(family, **changes)
    assert read_config(write_config(config), pooler=config.pooler, where="config.json") == config


def test_a_family_that_only_reads_its_layers_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Family = replace(FAMILIES["modernbert"], write_more=lambda config: {})
    config = config_of("modernbert", local_attention=6)
    monkeypatch.setattr(type(FAMILIES), "find", lambda self, name, place="": own)
    with pytest.raises(EncoderError, match="A family of your own needs `write_more`"):
        write_config(config)
