"""Families of checkpoints: tables of what BERT and its relatives call their settings and their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from palbert.errors import EncoderError, did_you_mean
from palbert.model.encoder import Encoder, EncoderConfig

Names = tuple[str, ...]
"""Where a parameter comes from: one checkpoint name, or several whose rows are laid one after the other."""


@dataclass(frozen=True)
class Family:
    """How checkpoints of one model type are written."""

    prefix: str
    """Stands before every encoder weight when the checkpoint has a head as well."""
    settings: Mapping[str, str]
    """Our configuration field to the key in config.json."""
    modules: Mapping[str, Names]
    """Our module outside of the layers to the checkpoint's."""
    layer: str
    """What stands before the modules of layer `{}`."""
    layer_modules: Mapping[str, Names]
    """Our module inside of a layer to the checkpoint's."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Configuration fields that config.json does not say."""
    positions_after_padding: bool = False
    """Whether positions count from the id of the padding token + 1."""
    masked_head: Mapping[str, str] = field(default_factory=dict)
    """Our parameter or module of the masked-word head to the checkpoint's."""
    masked_activation: str | None = None
    """The activation inside that head, where it is not the encoder's own."""


SIZES = {
    "vocabulary_size": "vocab_size",
    "hidden_size": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
}
TRAINING = {
    "activation": "hidden_act",
    "norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
}
TABLES: dict[str, Names] = {
    "embeddings.word": ("embeddings.word_embeddings",),
    "embeddings.position": ("embeddings.position_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
}
TYPES: dict[str, Names] = {"embeddings.token_type": ("embeddings.token_type_embeddings",)}
POOLER: dict[str, Names] = {"pooler": ("pooler.dense",)}
BERT_LAYER: dict[str, Names] = {
    "query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention_output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "intermediate": ("intermediate.dense",),
    "output": ("output.dense",),
    "norm": ("output.LayerNorm",),
}
LM_HEAD = {"dense": "lm_head.dense", "norm": "lm_head.layer_norm", "bias": "lm_head.bias"}
BERT = Family(
    prefix="bert.",
    settings={**SIZES, **TRAINING, "type_vocabulary_size": "type_vocab_size"},
    modules={**TABLES, **TYPES, **POOLER},
    layer="encoder.layer.{}.",
    layer_modules=BERT_LAYER,
    masked_head={
        "dense": "cls.predictions.transform.dense",
        "norm": "cls.predictions.transform.LayerNorm",
        "bias": "cls.predictions.bias",
    },
)
ROBERTA = Family(
    prefix="roberta.",
    settings=BERT.settings,
    modules=BERT.modules,
    layer=BERT.layer,
    layer_modules=BERT_LAYER,
    positions_after_padding=True,
    masked_head=LM_HEAD,
    masked_activation="gelu",
)
ELECTRA = Family(
    prefix="electra.",
    settings={**BERT.settings, "embedding_size": "embedding_size"},
    modules={**TABLES, **TYPES, "embeddings.project": ("embeddings_project",)},
    layer=BERT.layer,
    layer_modules=BERT_LAYER,
    masked_head={
        "dense": "generator_predictions.dense",
        "norm": "generator_predictions.LayerNorm",
        "bias": "generator_lm_head.bias",
    },
    masked_activation="gelu",
)
DISTILBERT = Family(
    prefix="distilbert.",
    settings={
        "vocabulary_size": "vocab_size",
        "hidden_size": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "initializer_range": "initializer_range",
    },
    modules=TABLES,
    layer="transformer.layer.{}.",
    layer_modules={
        "query_key_value": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        "attention_output": ("attention.out_lin",),
        "attention_norm": ("sa_layer_norm",),
        "intermediate": ("ffn.lin1",),
        "output": ("ffn.lin2",),
        "norm": ("output_layer_norm",),
    },
    fixed={"type_vocabulary_size": 0, "norm_epsilon": 1e-12},
    masked_head={"dense": "vocab_transform", "norm": "vocab_layer_norm", "bias": "vocab_projector.bias"},
)
MPNET = Family(
    prefix="mpnet.",
    settings={**SIZES, **TRAINING, "relative_buckets": "relative_attention_num_buckets"},
    modules={**TABLES, **POOLER, "relative": ("encoder.relative_attention_bias",)},
    layer=BERT.layer,
    layer_modules={
        **BERT_LAYER,
        "query_key_value": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        "attention_output": ("attention.attn.o",),
        "attention_norm": ("attention.LayerNorm",),
    },
    fixed={"type_vocabulary_size": 0},
    positions_after_padding=True,
    masked_head=LM_HEAD,
    masked_activation="gelu",
)
FAMILIES = {
    "bert": BERT,
    "camembert": ROBERTA,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "mpnet": MPNET,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
}
"""The families, by the `model_type` in config.json."""

REQUIRED = ("vocabulary_size", "hidden_size", "layers", "heads", "intermediate_size")
"""Fields that config.json must say; the others have the same defaults everywhere."""
DEFAULTS = {"relative_buckets": 32, "embedding_size": 128}
"""What a key that a family has stands for when config.json leaves it out, where that differs from ours."""

NOT_ENCODER = (
    "classifier.", "cls.", "discriminator_predictions.", "generator_lm_head.", "generator_predictions.",
    "lm_head.", "pre_classifier.", "qa_outputs.", "sequence_summary.", "vocab_layer_norm.",
    "vocab_projector.", "vocab_transform.",
    "embeddings.position_ids", "embeddings.token_type_ids",
)  # fmt: skip
"""Beginnings of names that may be left over: the heads of other tasks, and buffers."""
OLD_NAMES = {"gamma": "weight", "beta": "bias"}
"""What checkpoints converted from TensorFlow call the two halves of a LayerNorm."""
NAMES_SHOWN = 8
"""Weights that an error names before it counts the others."""


def read_config(values: Mapping[str, Any], *, pooler: bool, where: str) -> EncoderConfig:
    """Turn a config.json into an encoder configuration.

    Args:
        values: The content of config.json.
        pooler: Whether the weights have a pooler; config.json does not say.
        where: The file, for errors.

    Raises:
        EncoderError: The model type or one of its settings is not supported.
    """
    family = family_of(values, where=where)
    _refuse_unsupported(values, where=where)
    offset = int(_get(values, "pad_token_id", 1)) + 1 if family.positions_after_padding else 0
    fields: dict[str, Any] = dict(family.fixed)
    for ours, theirs in family.settings.items():
        if ours in REQUIRED:
            fields[ours] = _require(values, theirs, where=where)
        elif values.get(theirs) is not None:
            fields[ours] = values[theirs]
        elif ours in DEFAULTS:
            fields[ours] = DEFAULTS[ours]
    fields.setdefault("embedding_size", fields["hidden_size"])
    return EncoderConfig(
        family=values["model_type"],
        max_length=_require(values, "max_position_embeddings", where=where) - offset,
        position_offset=offset,
        pooler=pooler and "pooler" in family.modules,
        **fields,
    )


def family_of(values: Mapping[str, Any], *, where: str) -> Family:
    """Return the family that a config.json names."""
    name = _require(values, "model_type", where=where)
    if name not in FAMILIES:
        known = did_you_mean(str(name), FAMILIES)
        raise EncoderError(f"{where}: unsupported model_type '{name}'.", hint=known)
    return FAMILIES[name]


def plain_names(family: Family, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Name weights as a bare encoder's checkpoint of today does, and leave out those of other heads."""
    plain = {}
    for name, tensor in weights.items():
        bare = todays_name(name.removeprefix(family.prefix))
        if not bare.startswith(NOT_ENCODER):
            plain[bare] = tensor
    return plain


def todays_name(name: str) -> str:
    """Return what a weight with a name from TensorFlow is called today; other names stay."""
    stem, dot, last = name.rpartition(".")
    return stem + dot + OLD_NAMES.get(last, last)


def checkpoint_names(encoder: Encoder) -> dict[str, Names]:
    """Return the checkpoint's names, without prefix, for each parameter of an encoder."""
    family = FAMILIES[encoder.config.family]
    names = {}
    for ours in encoder.state_dict():
        module, _, last = ours.rpartition(".")
        if module.startswith("layers."):
            _, number, inner = module.split(".", 2)
            stems: Iterable[str] = (family.layer.format(number) + each for each in family.layer_modules[inner])
        else:
            stems = family.modules[module]
        names[ours] = tuple(f"{stem}.{last}" for stem in stems)
    return names


def convert(encoder: Encoder, weights: Mapping[str, Tensor], *, where: str) -> dict[str, Tensor]:
    """Turn a checkpoint's weights into the encoder's state, float32.

    Args:
        encoder: The encoder that will take them; it may be on the meta device.
        weights: As `plain_names` gives them.
        where: The folder, for errors.

    Raises:
        EncoderError: A weight is missing, left over or of another shape.
    """
    names = checkpoint_names(encoder)
    state = encoder.state_dict()
    shapes = {
        name: (state[ours].shape[0] // len(parts), *state[ours].shape[1:])
        for ours, parts in names.items()
        for name in parts
    }
    problems = {
        "missing": [name for name in shapes if name not in weights],
        "left over": sorted(weights.keys() - shapes.keys()),
        "not shaped as config.json says": [
            f"{name} is {tuple(weights[name].shape)} and not {shape}"
            for name, shape in shapes.items()
            if name in weights and weights[name].shape != shape
        ],
    }
    found = "; ".join(f"{problem}: {_listed(which)}" for problem, which in problems.items() if which)
    if found:
        raise EncoderError(f"{where}: expected the weights of a {encoder.config.family} encoder. {found}.")
    return {ours: torch.cat([weights[name] for name in parts]).float() for ours, parts in names.items()}


def export(encoder: Encoder) -> dict[str, Tensor]:
    """Write an encoder's weights as a checkpoint with a head has them; `plain_names` and `convert` undo it."""
    prefix, state = FAMILIES[encoder.config.family].prefix, encoder.state_dict()
    return {
        prefix + name: part
        for ours, names in checkpoint_names(encoder).items()
        for name, part in zip(names, state[ours].chunk(len(names)), strict=True)
    }


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + rest


def _refuse_unsupported(values: Mapping[str, Any], *, where: str) -> None:
    kind = _get(values, "position_embedding_type", "absolute")
    if kind != "absolute":
        raise EncoderError(f"{where}: expected position_embedding_type 'absolute', found '{kind}'.")


def _get(values: Mapping[str, Any], key: str, default: Any) -> Any:
    return default if values.get(key) is None else values[key]


def _require(values: Mapping[str, Any], key: str, *, where: str) -> Any:
    if values.get(key) is None:
        raise EncoderError(f"{where}: no '{key}'.", hint="Is this the config.json of an encoder?")
    return values[key]
