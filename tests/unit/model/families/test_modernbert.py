"""ModernBERT's config.json: windows and rotary bases of each layer, in files of both kinds."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.errors import EncoderError
from palbert.model.config import EncoderConfig
from palbert.model.families import read_config, write_config

SETTINGS = {
    "model_type": "modernbert",
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 5,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 20,
}


def config_of(**changes: Any) -> EncoderConfig:
    return read_config({**SETTINGS, **changes}, pooler=True, where="config.json")


def test_every_third_layer_attends_to_all_unless_the_file_says_otherwise() -> None:
    assert config_of().windows == (0, 64, 64, 0, 64)
    assert config_of(global_attn_every_n_layers=2, local_attention=10).windows == (0, 5, 0, 5, 0)
    assert config_of(global_attn_every_n_layers=1).windows == (0,) * 5


def test_full_and_sliding_layers_have_their_own_rotary_bases() -> None:
    assert config_of().rotary_bases == (160_000, 10_000, 10_000, 160_000, 10_000)
    assert config_of(global_rope_theta=7.0, local_rope_theta=3.0).rotary_bases == (7, 3, 3, 7, 3)
    assert config_of(global_rope_theta=7.0, local_rope_theta=None).rotary_bases == (7,) * 5


def test_the_new_form_of_the_file_gives_the_same_configuration() -> None:
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    bases = {"full_attention": {"rope_type": "default", "rope_theta": 7.0}, "sliding_attention": {"rope_theta": 3.0}}
    assert config_of(layer_types=kinds, rope_parameters=bases) == config_of(
        global_rope_theta=7.0, local_rope_theta=3.0, global_attn_every_n_layers=3
    )


def test_biases_and_dropout_are_off_unless_the_file_says_otherwise() -> None:
    plain, other = config_of(), config_of(attention_bias=True, mlp_bias=True, norm_bias=True, mlp_dropout=0.2)
    assert not (plain.attention_bias or plain.feed_forward_bias or plain.norm_bias or plain.dropout)
    assert other.attention_bias and other.feed_forward_bias and other.norm_bias and other.dropout == 0.2
    assert (plain.block, plain.feed_forward, plain.positions, plain.pooler) == ("pre-norm", "gated", "rotary", False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["full_attention"] * 4}, "one per layer; found 4 for 5 layers"),
        ({"layer_types": ["full_attention"] * 4 + ["linear"]}, "found linear"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type 'default'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_type 'default'"),
        ({"hidden_size": 6}, "heads of an even width, found 3"),
        ({"layer_types": "full_attention"}, "one per layer; found 1 for 5 layers"),
        ({"layer_types": [["full_attention"]] * 5}, "layer_types of full_attention and sliding_attention"),
        ({"local_attention": 1}, "local_attention: expected a whole number from 2, found 1"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers: expected a whole number from 1, found 0"),
        ({"num_hidden_layers": "5"}, "num_hidden_layers: expected a whole number from 1 to 1,000, found '5'"),
        ({"rope_parameters": {"rope_theta": 5.0}}, "a table for each of full_attention and sliding_attention"),
        ({"rope_parameters": {"full_attention": 5.0}}, "a table for each of full_attention and sliding_attention"),
        ({"rope_parameters": {"full_attention": {"rope_theta": "5"}}}, "rope_theta: expected a number above 0"),
        ({"local_rope_theta": 0}, "rope_theta: expected a number above 0, found 0"),
    ],
)
def test_unsupported_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EncoderError, match=rf"config\.json: .*{message}"):
        config_of(**changes)


@pytest.mark.parametrize(
    "changes",
    [{}, {"local_attention": 7, "global_rope_theta": 7.0}, {"global_attn_every_n_layers": 1}, {"mlp_bias": True}],
)
def test_a_written_config_has_the_windows_and_bases_of_each_layer(changes: dict[str, Any]) -> None:
    config = config_of(**changes)
    assert read_config(write_config(config), pooler=False, where="config.json") == config
