"""ModernBERT: pre-norm blocks, rotary positions, gated feed-forward networks, sliding windows (arXiv:2412.13663)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palbert.errors import EncoderError
from palbert.model.config import MOST_LAYERS, EncoderConfig
from palbert.model.families.family import Family, get
from palbert.options import check_count, check_number

FULL, SLIDING = "full_attention", "sliding_attention"
BASES = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}
"""By kind of layer: the key of its rotary base in older files, and the default."""


def read_layers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Read what differs from layer to layer: the base of the rotary angles, and the window of attention.

    Older files have `global_attn_every_n_layers`, `global_rope_theta` and `local_rope_theta`; newer ones have
    `layer_types` and `rope_parameters`.
    """
    kinds = _kinds(values)
    bases = {kind: _rotary_base(values, kind) for kind in BASES}
    side = 0
    if SLIDING in kinds:  # a window of 1 would be 0 on each side, which stands for no window
        side = check_count("local_attention", get(values, "local_attention", 128), least=2) // 2
    return {
        "rotary_bases": tuple(bases[kind] for kind in kinds),
        "windows": tuple(side if kind == SLIDING else 0 for kind in kinds),
    }


def _kinds(values: Mapping[str, Any]) -> list[str]:
    """Return the kind of each layer."""
    layers = check_count("num_hidden_layers", values["num_hidden_layers"], least=1, most=MOST_LAYERS)
    every = check_count("global_attn_every_n_layers", get(values, "global_attn_every_n_layers", 3), least=1)
    given = values.get("layer_types")
    if given is None:
        return [SLIDING if number % every else FULL for number in range(layers)]
    kinds = given if isinstance(given, list) else [given]
    unknown = sorted({str(kind) for kind in kinds} - set(BASES))
    if unknown or len(kinds) != layers:
        found = f"found {', '.join(unknown)}" if unknown else f"found {len(kinds)} for {layers} layers"
        raise EncoderError(f"expected layer_types of {FULL} and {SLIDING}, one per layer; {found}.")
    return kinds


def _rotary_base(values: Mapping[str, Any], kind: str) -> float:
    """Return the base of the rotary angles in layers of a kind."""
    by_kind = get(values, "rope_parameters", {})
    parameters = get(by_kind, kind, {}) if isinstance(by_kind, Mapping) and by_kind.keys() <= BASES.keys() else None
    if not isinstance(parameters, Mapping):
        raise EncoderError(f"expected rope_parameters as a table for each of {FULL} and {SLIDING}, found {by_kind!r}.")
    scaling = get(parameters, "rope_type", "default")
    if scaling != "default" or values.get("rope_scaling") is not None:
        raise EncoderError("expected rotary positions of rope_type 'default', found another scaling.")
    key, usual = BASES[kind]
    if key in values and values[key] is None:  # sliding layers then have the base of the others
        key, usual = BASES[FULL]
    return float(check_number("rope_theta", get(parameters, "rope_theta", get(values, key, usual)), above=0))


def write_layers(config: EncoderConfig) -> dict[str, Any]:
    """Return the keys that `read_layers` reads."""
    kinds = [SLIDING if window else FULL for window in config.windows]
    bases = dict(zip(kinds, config.rotary_bases, strict=True))
    sides = [window for window in config.windows if window]
    return {
        "layer_types": kinds,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        **({"local_attention": 2 * sides[0]} if sides else {}),
    }


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
        # palbert has one dropout, after the embeddings and each sublayer; these checkpoints were trained without any.
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
    write_more=write_layers,
    masked_head={"dense": "head.dense", "norm": "head.norm", "bias": "decoder.bias"},
    masked_options={"activation": "gelu", "dense_bias": False, "output_bias": True},
    masked_settings={
        "activation": "classifier_activation",
        "dense_bias": "classifier_bias",
        "output_bias": "decoder_bias",
    },
)
