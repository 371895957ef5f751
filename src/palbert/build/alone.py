"""An encoder alone: opened like a checkpoint that has no tasks."""

from __future__ import annotations

from pathlib import Path

from palbert.build.checkpoint import OpenedCheckpoint
from palbert.build.machine import Machine
from palbert.build.tokenizer import load_tokenizer
from palbert.errors import EncoderError
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import MINILM, SENTENCE_SETTINGS, load_encoder, resolve_encoder
from palbert.runtime.json_objects import read_object_if_there

LENGTHS = {SENTENCE_SETTINGS: "max_seq_length", "tokenizer_config.json": "model_max_length"}
"""Where a folder says how many tokens a text may have: the first that does, as sentence-transformers reads them."""


def is_encoder(name: str | Path) -> bool:
    """Whether a name is that of an encoder, and not of a run or one of its checkpoints."""
    return str(name) == MINILM or (Path(name) / "config.json").is_file()


def open_encoder(name: str, machine: Machine) -> OpenedCheckpoint:
    """Open a pretrained encoder without heads."""
    folder = resolve_encoder(name)
    tokenizer, encoder = load_tokenizer(folder), load_encoder(folder)
    model = MultiTaskModel(encoder, heads={}, poolings={})
    length = usual_length(folder, most=encoder.config.max_length)
    if length <= tokenizer.template.single:
        raise EncoderError(
            f"{folder}: texts of {length} tokens leave no room between {tokenizer.template.single} special tokens.",
            hint=f"Correct {' or '.join(f'{key} in {file}' for file, key in LENGTHS.items())}.",
        )
    return OpenedCheckpoint(model.to(machine.device).eval(), tokenizer, {}, {"max_length": length})


def usual_length(folder: Path, *, most: int) -> int:
    """Return the tokens that a text may have, special ones included: what the folder says, or all positions."""
    for file, key in LENGTHS.items():
        found = read_object_if_there(folder / file).get(key)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return min(found, most)
    return most
