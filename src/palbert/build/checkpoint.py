"""A checkpoint to a model, from the checkpoint's own files alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.build.machine import Machine
from palbert.build.model import build_model
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import CheckpointError
from palbert.model.encoder import Encoder, EncoderConfig
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.sections import AdapterSection, RelationSection
from palbert.tasks.spec import Task
from palbert.training.checkpoint import load_weights, read_description


@dataclass(frozen=True)
class OpenedCheckpoint:
    """A checkpoint, loaded."""

    model: MultiTaskModel
    tokenizer: TextTokenizer
    tasks: dict[str, Task]
    description: dict[str, Any]


def read_tasks(folder: Path) -> dict[str, Task]:
    """Return the tasks that a checkpoint answers."""
    description = read_description(folder)
    try:
        return {name: Task.model_validate(task) for name, task in description["tasks"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / 'palbert.json'}: damaged: {error}.") from error


def open_checkpoint(folder: Path, machine: Machine) -> OpenedCheckpoint:
    """Rebuild the model of a checkpoint."""
    tasks, description = read_tasks(folder), read_description(folder)
    try:
        config = EncoderConfig(**description["encoder"])
        adapters, relation = description["adapters"], description["relation"]
        sections = {
            "adapters": AdapterSection.model_validate(adapters) if adapters else None,
            "relation": RelationSection.model_validate(relation) if relation else None,
        }
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / 'palbert.json'}: damaged: {error}.") from error
    model = build_model(tasks, Encoder(config), **sections)  # type: ignore[arg-type]
    load_weights(folder, model)
    return OpenedCheckpoint(model.to(machine.device).eval(), TextTokenizer.from_folder(folder), tasks, description)
