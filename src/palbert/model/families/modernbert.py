"""ModernBERT: pre-norm blocks, rotary positions, gated feed-forward networks, sliding windows (arXiv:2412.13663)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palbert.errors import EncoderError
from palbert.model.families.family import Family

FULL, SLIDING = "full_attention", "sliding_attention"
BASES = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}
"""By the kind of a layer: the key of its rotary base in older files, and what the base is if no file says so."""


def read_layers(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read what differs from layer to layer: the base of the rotary angles, and the window of attention.

    Older files have `global_attn_every_n_layers`, `global_rope_theta` and `local_rope_theta`; newer ones have
    `layer_types` and `rope_parameters`.
    """
    every, layers = _get(values, "global_attn_every_n_layers", 3), values["num_hidden_layers"]
    kinds = _get(values, "layer_types", [SLIDING if number % every else FULL for number in range(layers)])
    unknown = sorted(set(kinds) - set(BASES))
    if unknown or len(kinds) != layers:
        found = f"found {', '.join(unknown)}" if unknown else f"found {len(kinds)} for {layers} layers"
        raise EncoderError(f"{where}: expected layer_types of {FULL} and {SLIDING}, one per layer; {found}.")
    bases = {kind: _rotary_base(values, kind, where) for kind in BASES}
    side = _get(values, "local_attention", 128) // 2
    return {
        "rotary_bases": tuple(bases[kind] for kind in kinds),
        "windows": tuple(side if kind == SLIDING else 0 for kind in kinds),
    }


def _rotary_base(values: Mapping[str, Any], kind: str, where: str) -> float:
    """Return the base of the rotary angles in layers of a kind."""
    parameters = _get(_get(values, "rope_parameters", {}), kind, {})
    scaling = _get(parameters, "rope_type", "default")
    if scaling != "default" or values.get("rope_scaling") is not None:
        raise EncoderError(f"{where}: expected rotary positions of rope_type 'default', found another scaling.")
    key, usual = BASES[kind]
    if key in values and values[key] is None:  # sliding layers then have the base of the others
        key, usual = BASES[FULL]
    return float(_get(parameters, "rope_theta", _get(values, key, usual)))


def _get(values: Mapping[str, Any], key: str, default: Any) -> Any:
    return default if values.get(key) is None else values[key]


MODERNBERT = Family(
    prefix="model.",
    settings={
        "vocabulary_size": "vocab_size",
        "hidden_size": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "activation": "hidden_activation",
        "norm_epsilon": "norm_eps",
        # palbert drops out after the embeddings and after each step; these checkpoints were trained without dropout.
        "dropout": "mlp_dropout",
        "attention_dropout": "attention_dropout",
        "initializer_range": "initializer_range",
        "attention_bias": "attention_bias",
        "feed_forward_bias": "mlp_bias",
        "norm_bias": "norm_bias",
    },
    modules={
        "embeddings.word": ("embeddings.tok_embeddings",),
        "embeddings.norm": ("embeddings.norm",),
        "final_norm": ("final_norm",),
    },
    layer="layers.{}.",
    layer_modules={
        "query_key_value": ("attn.Wqkv",),
        "attention_output": ("attn.Wo",),
        "attention_norm": ("attn_norm",),
        "intermediate": ("mlp.Wi",),
        "output": ("mlp.Wo",),
        "norm": ("mlp_norm",),
    },
    defaults={
        "norm_epsilon": 1e-5,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "attention_bias": False,
        "feed_forward_bias": False,
        "norm_bias": False,
    },
    fixed={
        "block": "pre-norm",
        "feed_forward": "gated",
        "norm": "layer",
        "positions": "rotary",
        "first_attention_norm": False,
        "type_vocabulary_size": 0,
    },
    read_more=read_layers,
    masked_head={"dense": "head.dense", "norm": "head.norm", "bias": "decoder.bias"},
    masked_options={"activation": "gelu", "dense_bias": False, "output_bias": True},
    masked_settings={
        "activation": "classifier_activation",
        "dense_bias": "classifier_bias",
        "output_bias": "decoder_bias",
    },
)
