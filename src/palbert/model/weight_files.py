"""Weight files: the tensors of an encoder folder, in one file or in several with an index."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from palbert.errors import EncoderError
from palbert.runtime.checksums import checked
from palbert.runtime.json_objects import read_object


class WeightFiles(NamedTuple):
    """One way to store weights: in a file, or in several with an index."""

    single: str
    listing: str
    shards: str


SAFETENSORS = WeightFiles("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
PICKLED = WeightFiles("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin")
WEIGHT_FILES = (SAFETENSORS, PICKLED)
"""In the order in which they are searched for."""


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a folder's weights, in order."""
    for kind in WEIGHT_FILES:
        if (folder / kind.single).is_file():
            return [folder / kind.single]
        if (folder / kind.listing).is_file():
            return _shards(folder / kind.listing)
    looked_for = ", ".join(name for kind in WEIGHT_FILES for name in (kind.single, kind.listing))
    raise EncoderError(f"{folder}: no weights.", hint=f"Looked for {looked_for}.")


def _shards(listing: Path) -> list[Path]:
    places = read_object(listing).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise EncoderError(f"{listing}: no 'weight_map'.", hint="Expected the file of each weight under it.")
    ending = re.escape(Path(listing.name.removesuffix(".index.json")).suffix)
    name = re.compile(rf"[\w-][\w.-]{{0,200}}{ending}", re.ASCII)
    outside = [file for file in places.values() if not isinstance(file, str) or not name.fullmatch(file)]
    if outside:
        raise EncoderError(
            f"{listing}: lists {outside[0]!r:.80}, which is not the name of a weight file next to it.",
            hint="Weights are read from their folder.",
        )
    files = [listing.parent / file for file in sorted(set(places.values()))]
    for file in files:
        if not file.is_file():
            raise EncoderError(f"{listing.parent}: no {file.name}, although {listing.name} lists it.")
        _refuse_link_outside(file)
    return files


def _refuse_link_outside(file: Path) -> None:
    """Refuse a link that leaves its folder; in the cache of the Hub, links lead from a snapshot to the blobs."""
    folder = file.parent.resolve()
    allowed = folder.parent.parent / "blobs" if folder.parent.name == "snapshots" else folder
    if not file.resolve().is_relative_to(folder) and not file.resolve().is_relative_to(allowed):
        raise EncoderError(
            f"{file}: is a link to {file.resolve()}, outside of its folder.",
            hint="Put the file itself there if you trust it.",
        )


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return all weights of a folder by their names in the files, heads included. Nothing but tensors is unpickled."""
    weights: dict[str, Tensor] = {}
    for file in map(checked, weight_files(folder)):
        found = _read_safetensors(file) if file.suffix == ".safetensors" else _read_pickled(file)
        if twice := sorted(found.keys() & weights.keys()):
            raise EncoderError(f"{file}: '{twice[0]}' is in another file of the folder, too.", hint="Remove one.")
        weights |= found
    return weights


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(file)
    except (SafetensorError, OSError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise EncoderError(
            f"{file}: cannot be read as weights ({type(error).__name__}: {error!s:.200}).",
            hint="Is the file complete? Download it again.",
        ) from error


def _read_pickled(file: Path) -> dict[str, Tensor]:
    """Read a file of PyTorch as tensors alone, so that it cannot run code."""
    try:
        weights = torch.load(file, map_location="cpu", weights_only=True)
        if not isinstance(weights, dict) or not all(map(_is_plain, weights.items())):
            raise ValueError("not a mapping from names to tensors")
    except Exception as error:  # whatever a damaged or malicious pickle leads to
        raise EncoderError(
            f"{file}: cannot be read as weights ({type(error).__name__}).",
            hint="Is the file complete? palbert reads tensors alone from files of PyTorch, never objects: ask the "
            "author for model.safetensors if this one has more.",
        ) from error
    return weights


def _is_plain(item: tuple[object, object]) -> bool:
    """Whether an entry is a name with a tensor that has all its numbers."""
    name, tensor = item
    if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
        return False
    return tensor.device.type == "cpu" and tensor.untyped_storage().nbytes() >= (
        math.prod(tensor.shape) * tensor.element_size()
    )
