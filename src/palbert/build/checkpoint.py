"""Open a checkpoint: rebuild its model from the checkpoint's own files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from palbert.build.machine import Machine, replaces_layers
from palbert.build.model import build_model
from palbert.build.tokenizer import check_rows
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import CheckpointError, RecipeError
from palbert.inference.decisions import Decision, read_decisions
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.explain import explain
from palbert.recipe.sections import AdapterSection, RelationSection
from palbert.registry.trust import admit
from palbert.tasks.spec import Task
from palbert.training.checkpoint import load_weights, map_weights, read_description


@dataclass(frozen=True)
class OpenedCheckpoint:
    """A checkpoint, loaded."""

    model: MultiTaskModel
    tokenizer: TextTokenizer
    tasks: dict[str, Task]
    description: dict[str, Any]
    decisions: dict[str, Decision] = field(default_factory=dict)
    """How outputs become answers, by task, where dev has chosen it."""
    folder: Path | None = None
    """Where it was loaded from; None for an encoder without tasks."""


def read_tasks(folder: Path) -> dict[str, Task]:
    """Return the tasks that a checkpoint answers, without loading its weights."""
    description = _admitted(folder)
    with _damage_reported(folder):
        return _tasks_of(description)


def _admitted(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's palbert.json; raise TrustError if it names code that is not allowed."""
    description = read_description(folder)
    admit(description, str(folder / "palbert.json"))
    return description


def _tasks_of(description: dict[str, Any]) -> dict[str, Task]:
    for name, task in description["tasks"].items():
        if task["name"] != name:
            raise ValueError(f"task {name!r} is called {task['name']!r}")
    return {name: Task.model_validate(task) for name, task in description["tasks"].items()}


@contextmanager
def _damage_reported(folder: Path) -> Iterator[None]:
    """Raise CheckpointError if an entry of palbert.json is missing or malformed."""
    try:
        yield
    except ValidationError as error:
        problems = " ".join(explain(error.errors(), Task))
        raise CheckpointError(f"{folder / 'palbert.json'}: damaged: {problems}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"no entry {error}" if isinstance(error, KeyError) else str(error).removesuffix(".")
        raise CheckpointError(f"{folder / 'palbert.json'}: damaged: {problem}.") from error


def open_checkpoint(folder: Path, machine: Machine) -> OpenedCheckpoint:
    """Rebuild the model of a checkpoint."""
    description = _admitted(folder)
    tasks, model = _build(folder, description, device="cpu")
    tokenizer, decisions = TextTokenizer.from_folder(folder), read_decisions(folder)
    check_rows(tokenizer, model.encoder.config.vocabulary_size, folder)
    load_weights(folder, model)
    return OpenedCheckpoint(model.to(machine.device).eval(), tokenizer, tasks, description, decisions, folder)


def open_differentiable(opened: OpenedCheckpoint, machine: Machine, *, copy: bool = False) -> MultiTaskModel:
    """Return the model of a checkpoint that was prepared for inference, with layers that have gradients.

    Where preparing replaced no layers, that is the model itself. Otherwise it takes all other weights, such as the
    table of words, from the prepared model, and maps those of the replaced layers from the checkpoint's file: they take
    memory that the system can give to others, and is read again when needed. No weight has a gradient.

    Args:
        opened: The checkpoint.
        machine: Where it answers.
        copy: Copy weights where they would be mapped. A process that reads mapped weights is killed if somebody
            writes over the file, which one that serves others must not be.

    Raises:
        CheckpointError: The checkpoint is not there any more, or is another one by now.
    """
    if not replaces_layers(machine):
        return opened.model.requires_grad_(False).eval()
    assert opened.folder is not None, "encoders without tasks have no answers"
    _, model = _build(opened.folder, opened.description, device="meta")
    own = opened.model.state_dict()
    weights = map_weights(opened.folder, model)
    if any(not torch.equal(weights[name], value) for name, value in own.items()):
        raise CheckpointError(
            f"{opened.folder}: was replaced by another checkpoint after it was loaded.", hint="Load the run again."
        )
    others = {name: value.clone() if copy else value for name, value in weights.items() if name not in own}
    model.load_state_dict({**others, **own}, assign=True)
    return model.requires_grad_(False).eval()


def _build(folder: Path, description: dict[str, Any], *, device: str) -> tuple[dict[str, Task], MultiTaskModel]:
    """Return the tasks of a checkpoint and its model, whose encoder has no weights yet."""
    with _damage_reported(folder):
        tasks = _tasks_of(description)
        config = EncoderConfig(**description["encoder"])
        adapters, relation = description["adapters"], description["relation"]
        sections = {
            "adapters": AdapterSection.model_validate(adapters) if adapters else None,
            "relation": RelationSection.model_validate(relation) if relation else None,
        }
        encoder = Encoder.without_weights(config)
    # to_empty() would do the same by empty_like(), which imports all of SymPy for weights without memory.
    encoder = encoder._apply(  # type: ignore[no-untyped-call]
        lambda weight: torch.empty(weight.shape, dtype=weight.dtype, device=device)
    )
    try:
        return tasks, build_model(tasks, encoder, **sections)  # type: ignore[arg-type]
    except RecipeError as error:  # the recipe's words for what the checkpoint says
        raise CheckpointError(f"{folder / 'palbert.json'}: {error.message}", hint=error.hint) from error
