"""TokenizerSettings: what an encoder folder says about its tokenizer besides the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from palbert.errors import EncoderError
from palbert.runtime.json_objects import read_object_if_there

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""In the order in which transformers adds special tokens to a vocabulary."""
EXTRA = ("extra_special_tokens", "additional_special_tokens")
"""Keys of further special tokens, in newer and older files."""
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


@dataclass(frozen=True)
class TokenizerSettings:
    """The content of tokenizer_config.json, and of the older files that it replaces."""

    place: str
    """The file, for errors."""
    values: Mapping[str, Any]
    """The content of tokenizer_config.json; empty without it."""
    class_name: str
    """The class that the folder names, without "Fast"; empty if it names none."""
    model_type: str
    """The model type in config.json; empty without it."""
    special: Mapping[str, AddedToken]
    """Special tokens by role, then those without a role."""
    added: Mapping[int, AddedToken]
    """Tokens that are not in the vocabulary file, by the id that they should have."""


def read_tokenizer_settings(folder: Path) -> TokenizerSettings:
    """Read tokenizer_config.json; special_tokens_map.json and added_tokens.json, too, where they count."""
    values = read_object_if_there(folder / "tokenizer_config.json")
    config = read_object_if_there(folder / "config.json")
    place = str(folder / "tokenizer_config.json")
    name = values.get("tokenizer_class") or config.get("tokenizer_class") or ""
    named, added = dict(values), values.get("added_tokens_decoder")
    if added is None:  # newer files have everything in one
        named |= read_object_if_there(folder / "special_tokens_map.json")
        added = read_object_if_there(folder / "added_tokens.json")
        added = {number: token for token, number in added.items()}
    if not isinstance(added, Mapping):
        raise EncoderError(f"{place}: added_tokens_decoder: expected a table of tokens by id, found {added!r:.80}.")
    special = _special(named, place)
    contents = {str(token.content) for token in special.values()}
    return TokenizerSettings(
        place=place,
        values=values,
        class_name=str(name).removesuffix("Fast"),
        model_type=str(config.get("model_type") or ""),
        special=special,
        added={_id(number, place): _added(token, contents, place) for number, token in added.items()},
    )


def _special(values: Mapping[str, Any], place: str) -> dict[str, AddedToken]:
    """Return the special tokens that some settings name, by role."""
    named = {role: values[role] for role in ROLES if values.get(role) is not None}
    own = {key: value for key, value in values.items() if key.endswith("_token") and isinstance(value, str)}
    extra: Any = next((values[key] for key in EXTRA if values.get(key)), ())
    if not isinstance(extra, Mapping):
        if isinstance(extra, str) or not isinstance(extra, Sequence):
            raise EncoderError(f"{place}: expected a list of further special tokens, found {extra!r:.80}.")
        extra = {f"extra {number}": token for number, token in enumerate(extra)}
    found = {**named, **own, **extra}
    return {role: token_of(value, f"{place}: {role}", special=True) for role, value in found.items()}


def token_of(value: Any, place: str, *, special: bool) -> AddedToken:
    """Return the token that a text or a table with `content` describes."""
    flags: dict[str, bool] = {}
    if isinstance(value, Mapping):
        flags = {flag: value[flag] for flag in FLAGS if flag in value}
        value = value.get("content")
    if not isinstance(value, str) or not value or not all(isinstance(flag, bool) for flag in flags.values()):
        raise EncoderError(f"{place}: expected a token, found {value!r:.80}.")
    return AddedToken(value, **{"special": special, "normalized": not special, **flags})


def _added(value: Any, special: set[str], place: str) -> AddedToken:
    """Return an entry of added_tokens_decoder, or of the older added_tokens.json, which has no flags."""
    if isinstance(value, Mapping):
        return token_of(value, f"{place}: added_tokens_decoder", special=False)
    return token_of(value, f"{place}: added_tokens.json", special=value in special)


def _id(value: Any, place: str) -> int:
    """Return an id, which is a key of a table in newer files."""
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 31:
        raise EncoderError(f"{place}: expected the id of an added token, found {value!r:.80}.")
    return number
