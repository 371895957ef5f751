"""Weights of checkpoints: from a family's own names to an encoder's parameters, and back."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from palbert.errors import EncoderError
from palbert.model.encoder import Encoder
from palbert.model.families.family import Family, Names
from palbert.registry import FAMILIES

log = logging.getLogger(__name__)

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
"""Number formats that are read as weights."""
NOT_ENCODER = (
    "classifier.", "cls.", "decoder.", "discriminator_predictions.", "generator_lm_head.", "generator_predictions.",
    "head.", "lm_head.", "pre_classifier.", "qa_outputs.", "sequence_summary.", "vocab_layer_norm.",
    "vocab_projector.", "vocab_transform.",
    "embeddings.position_ids", "embeddings.token_type_ids",
)  # fmt: skip
"""Beginnings of names that may be left over: the heads of other tasks, and buffers."""
OLD_NAMES = {"gamma": "weight", "beta": "bias"}
"""What checkpoints converted from TensorFlow call the two halves of a LayerNorm."""
NAMES_SHOWN = 8
"""Weights that an error names before it counts the others."""


def prefix_in(family: Family, weights: Iterable[str], *, where: str) -> str:
    """Return what precedes the encoder's weights: nothing, the family's prefix, or that of a library around it.

    Raises:
        EncoderError: There are several encoders.
    """
    table = f"{family.modules['embeddings.word'][0]}.weight"
    found = sorted(name.removesuffix(table) for name in weights if name == table or name.endswith(f".{table}"))
    if len(found) > 1:
        places = ", ".join(repr(prefix) for prefix in found)
        raise EncoderError(
            f"{where}: the weights hold several encoders, whose names begin with {places}.",
            hint="Save the one that you want alone, with its save_pretrained.",
        )
    return found[0] if found else family.prefix


def plain_names(family: Family, weights: Mapping[str, Tensor], *, where: str) -> dict[str, Tensor]:
    """Name weights as a current checkpoint of a bare encoder does; leave out, and log, those outside of the encoder.

    Raises:
        EncoderError: There are several encoders, or two weights have one name.
    """
    prefix = prefix_in(family, weights, where=where)
    roots = _roots(family)
    plain: dict[str, Tensor] = {}
    unused = []
    for name, tensor in weights.items():
        bare = current_name(name.removeprefix(prefix))
        inside = name.startswith(prefix) and bare.split(".")[0] in roots
        if bare.startswith(NOT_ENCODER) or name.startswith(NOT_ENCODER):
            continue
        if not inside:
            unused.append(name)
        elif bare in plain:
            raise EncoderError(f"{where}: the weight '{bare}' occurs twice, as '{name}' and under another name.")
        else:
            plain[bare] = tensor
    if unused:
        log.warning("%s: not part of the encoder, and not used: %s", where, _listed(sorted(unused)))
    return plain


def _roots(family: Family) -> set[str]:
    """Return how the names of an encoder's weights begin."""
    stems = [stem for stems in family.modules.values() for stem in stems]
    return {stem.split(".")[0] for stem in [*stems, family.layer]}


def current_name(name: str) -> str:
    """Replace the last part of a name that comes from TensorFlow; other names stay as they are."""
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
    problems["not floating-point numbers"] = [
        f"{name} is {weights[name].dtype}" for name in shapes if name in weights and weights[name].dtype not in FLOATS
    ]
    found = "; ".join(f"{problem}: {_listed(which)}" for problem, which in problems.items() if which)
    if found:
        raise EncoderError(f"{where}: expected the weights of a {encoder.config.family} encoder. {found}.")
    state = {ours: torch.cat([weights[name] for name in parts]).float() for ours, parts in names.items()}
    if wrong := [names[ours][0] for ours, tensor in state.items() if not tensor.isfinite().all()]:
        raise EncoderError(
            f"{where}: weights that are not finite numbers: {_listed(wrong)}.",
            hint="The file is damaged, or its training failed: download it again.",
        )
    return state


def export(encoder: Encoder) -> dict[str, Tensor]:
    """Name an encoder's weights as a checkpoint with a head does; `plain_names` and `convert` undo it."""
    prefix, state = FAMILIES[encoder.config.family].prefix, encoder.state_dict()
    return {
        prefix + name: part
        for ours, names in checkpoint_names(encoder).items()
        for name, part in zip(names, state[ours].chunk(len(names)), strict=True)
    }


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + rest
