"""An encoder alone: opened like a checkpoint that has no tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palbert.build.checkpoint import OpenedCheckpoint
from palbert.build.machine import Machine
from palbert.data.tokenizer import TextTokenizer
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import MINILM, SENTENCE_SETTINGS, load_encoder, resolve_encoder

LENGTHS = {SENTENCE_SETTINGS: "max_seq_length", "tokenizer_config.json": "model_max_length"}
"""Where a folder says how many tokens a text may have: the first that does, as sentence-transformers reads them."""


def is_encoder(name: str | Path) -> bool:
    """Whether a name is that of an encoder, and not of a run or one of its checkpoints."""
    return str(name) == MINILM or (Path(name) / "config.json").is_file()


def open_encoder(name: str, machine: Machine) -> OpenedCheckpoint:
    """Open a pretrained encoder without heads."""
    folder = resolve_encoder(name)
    encoder = load_encoder(folder)
    model = MultiTaskModel(encoder, heads={}, poolings={})
    length = usual_length(folder, most=encoder.config.max_length)
    return OpenedCheckpoint(
        model.to(machine.device).eval(), TextTokenizer.from_folder(folder), {}, {"max_length": length}
    )


def usual_length(folder: Path, *, most: int) -> int:
    """Return the tokens that a text may have, special ones included: what the folder says, or all positions."""
    for file, key in LENGTHS.items():
        found = _read(folder / file).get(key)
        if isinstance(found, int) and found > 0:
            return min(found, most)
    return most


def _read(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
