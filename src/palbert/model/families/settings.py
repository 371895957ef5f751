"""Settings of checkpoints: from a config.json to an encoder's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palbert.errors import EncoderError, PalbertError, did_you_mean
from palbert.model.config import EncoderConfig
from palbert.model.families.family import Family, get
from palbert.options import check_count
from palbert.registry import FAMILIES

UNSUPPORTED = {
    "is_decoder": "a decoder sees only the words before each word, and palbert's encoders see all of them",
    "add_cross_attention": "cross-attention belongs to a decoder",
    "is_encoder_decoder": "palbert reads encoders alone",
    "pruned_heads": "heads that are cut out of single layers are not supported",
    "quantization_config": "quantized weights are not supported",
}
"""Settings that change what is computed, where they are neither missing nor false or empty."""
UNSUPPORTED_HINT = "Take the encoder that this one was made from."
REQUIRED_FIELDS = ("vocabulary_size", "hidden_size", "layers", "heads", "intermediate_size")
"""Fields that config.json must have; the others have the same defaults everywhere."""


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
    for key in (*(family.settings[ours] for ours in REQUIRED_FIELDS), "max_position_embeddings"):
        _require(values, key, where=where)
    try:
        return _read_fields(family, values, pooler=pooler)
    except PalbertError as error:
        raise EncoderError(f"{where}: {error.message}", hint=error.hint) from None


def _read_fields(family: Family, values: Mapping[str, Any], *, pooler: bool) -> EncoderConfig:
    """Read the fields of a configuration; errors name no file."""
    offset = check_count("pad_token_id", get(values, "pad_token_id", 1)) + 1 if family.positions_after_padding else 0
    fields: dict[str, Any] = dict(family.fixed)
    for ours, theirs in family.settings.items():
        if values.get(theirs) is not None:
            fields[ours] = values[theirs]
        elif ours in family.defaults:
            fields[ours] = family.defaults[ours]
    fields |= family.read_more(values)
    fields.setdefault("embedding_size", fields["hidden_size"])
    return EncoderConfig(
        family=values["model_type"],
        max_length=check_count("max_position_embeddings", values["max_position_embeddings"]) - offset,
        position_offset=offset,
        pooler=pooler and "pooler" in family.modules,
        **fields,
    )


def write_config(config: EncoderConfig) -> dict[str, Any]:
    """Turn an encoder configuration into the content of a config.json; `read_config` undoes it.

    Raises:
        EncoderError: The family says how to read its config.json, but not how to write it.
    """
    family: Family = FAMILIES.find(config.family)
    values = {theirs: getattr(config, ours) for ours, theirs in family.settings.items()}
    values |= {
        "model_type": config.family,
        "max_position_embeddings": config.max_length + config.position_offset,
        **({"pad_token_id": config.position_offset - 1} if family.positions_after_padding else {}),
        **family.write_more(config),
    }
    if read_config(values, pooler=config.pooler, where="config.json") != config:
        raise EncoderError(
            f"The configuration of this {config.family} encoder cannot be written as a config.json.",
            hint="A family of your own needs `write_more` next to `read_more`.",
        )
    return values


def family_of(values: Mapping[str, Any], *, where: str) -> Family:
    """Return the family that a config.json names."""
    name = _require(values, "model_type", where=where)
    if not isinstance(name, str) or name not in FAMILIES:
        known = did_you_mean(str(name), FAMILIES)
        raise EncoderError(f"{where}: unsupported model_type '{name}'.", hint=known)
    family: Family = FAMILIES.find(name)
    return family


def _refuse_unsupported(values: Mapping[str, Any], *, where: str) -> None:
    """Refuse settings under which transformers computes something that palbert does not."""
    kind = get(values, "position_embedding_type", "absolute")
    if kind != "absolute":
        raise EncoderError(
            f"{where}: expected position_embedding_type 'absolute', found {kind!r:.80}.",
            hint="Positions by distance inside of BERT are not supported: take another encoder.",
        )
    for key, reason in UNSUPPORTED.items():
        if values.get(key):
            raise EncoderError(f"{where}: {key} is {values[key]!r:.80}: {reason}.", hint=UNSUPPORTED_HINT)
    if values.get("type_vocab_size") == 0:
        raise EncoderError(f"{where}: type_vocab_size is 0: transformers adds a token type to every word.")


def _require(values: Mapping[str, Any], key: str, *, where: str) -> Any:
    if values.get(key) is None:
        raise EncoderError(f"{where}: no '{key}'.", hint="Is this the config.json of an encoder?")
    return values[key]
