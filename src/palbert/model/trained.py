"""Trained encoders: the checkpoint of a run, read as the folder of a pretrained encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from palbert.errors import EncoderError
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.families import export, write_config
from palbert.model.families.weights import FLOATS
from palbert.runtime.checksums import checked
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import RunFolder

DESCRIPTION = "palbert.json"
PREFIX = "encoder."
"""What the names of an encoder's weights begin with in a checkpoint."""


def encoder_in(folder: Path) -> Path:
    """Return where the encoder of a folder is: in the folder itself, or in the best checkpoint of the run there."""
    if (folder / "config.json").is_file() or not RunFolder(folder).checkpoints.is_dir():
        return folder
    return RunFolder(folder).checkpoint()


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is a checkpoint of palbert, and not an encoder in the Hugging Face layout."""
    return (folder / DESCRIPTION).is_file() and not (folder / "config.json").is_file()


def trained_settings(folder: Path) -> dict[str, Any]:
    """Return the config.json that the encoder of a checkpoint would have."""
    return write_config(_config(folder))


def trained_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint's encoder by the names of its family; heads and adapters are left out."""
    file = checked(folder / "model.safetensors")
    try:
        tensors = safetensors.torch.load_file(file)
    except (OSError, SafetensorError) as error:
        raise EncoderError(f"{file}: cannot be read as weights ({type(error).__name__}).") from error
    encoder = Encoder.without_weights(_config(folder))
    own = {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}
    if other := [f"{name} is {value.dtype}" for name, value in own.items() if value.dtype not in FLOATS]:
        raise EncoderError(f"{file}: expected floating-point numbers: {', '.join(other[:8])}.")
    try:
        encoder.load_state_dict(own, assign=True)
    except RuntimeError as error:
        raise EncoderError(f"{file}: the weights do not fit {DESCRIPTION}.") from error
    return export(encoder)


def _config(folder: Path) -> EncoderConfig:
    file = checked(folder / DESCRIPTION)
    description = read_object(file, hint=None)
    try:
        config = EncoderConfig(**description["encoder"])
    except (KeyError, TypeError, ValueError) as error:
        raise EncoderError(f"{file}: damaged: expected the description of a model ({error}).") from error
    if not description.get("tasks"):
        raise EncoderError(
            f"{folder}: the pretraining of this encoder is not finished.", hint="Continue it: palbert pretrain --resume"
        )
    return config
