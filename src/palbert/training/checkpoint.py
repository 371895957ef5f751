"""Checkpoints: safetensors and JSON, written completely or not at all; nothing needs pickle."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import CheckpointError
from palbert.runtime.files import new_folder, recover_folder
from palbert.training.averaging import Average
from palbert.training.trainer import Trainer

FORMAT = 1
MODEL_FILES = ("model.safetensors", "palbert.json", "tokenizer.json")


@dataclass(frozen=True)
class TrainerState:
    """What resuming needs in addition to the evaluated weights."""

    position: dict[str, Any]
    best: dict[str, float]
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]
    objective: dict[str, Tensor] = field(default_factory=dict)
    average: dict[str, Tensor] = field(default_factory=dict)


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    tokenizer: TextTokenizer,
    *,
    description: dict[str, Any],
    state: TrainerState,
) -> None:
    """Write a checkpoint that replaces `folder` once it is complete."""
    with new_folder(folder) as temporary:
        _write_tensors(temporary / "model.safetensors", module_tensors(model))
        _write_json(temporary / "palbert.json", {"format": FORMAT, **description})
        tokenizer.save(temporary / "tokenizer.json")
        _write_tensors(temporary / "optimizer.safetensors", state.optimizer)
        _write_tensors(temporary / "random.safetensors", state.random)
        if state.objective:  # most objectives have no state
            _write_tensors(temporary / "objective.safetensors", state.objective)
        if state.average:  # otherwise the weights under training are the model's own
            _write_tensors(temporary / "weights.safetensors", _plain(state.average))
        _write_json(temporary / "trainer.json", {"position": state.position, "best": state.best})


def link_checkpoint(source: Path, target: Path) -> None:
    """Make `target` the same checkpoint without the trainer's state, as hard links where the file system has them."""
    with new_folder(target) as temporary:
        for name in MODEL_FILES:
            try:
                os.link(source / name, temporary / name)
            except OSError:  # a file system without hard links, such as a mounted cloud drive
                shutil.copyfile(source / name, temporary / name)


def read_description(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's palbert.json; raise CheckpointError if it is missing, damaged or of another format."""
    recover_folder(folder)
    path = folder / "palbert.json"
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: no checkpoint here (palbert.json is missing).",
            hint="Give a run folder or one of its checkpoints.",
        )
    description = _read_json(path)
    if description.get("format") != FORMAT:
        raise CheckpointError(
            f"{folder}: written in checkpoint format {description.get('format')} by palbert "
            f"{description.get('palbert', 'of an unknown version')}; this palbert reads format {FORMAT}.",
            hint="Use the palbert that wrote it, or train again.",
        )
    return description


def load_weights(folder: Path, model: nn.Module) -> None:
    """Load a checkpoint's weights into a model."""
    weights = _load_tensors(folder / "model.safetensors")
    differing = _differing(model.state_dict(), weights)
    if differing:
        raise CheckpointError(f"{folder}: the weights do not fit palbert.json: {', '.join(differing[:8])}.")
    broken = [name for name, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        raise CheckpointError(
            f"{folder / 'model.safetensors'}: holds weights that are not numbers: {', '.join(broken[:8])}.",
            hint="Take another checkpoint of the run with --checkpoint, or train again.",
        )
    model.load_state_dict(weights)


def restore_trainer(folder: Path, trainer: Trainer, state: TrainerState) -> None:
    """Restore the average of the weights, the optimizer and the objective."""
    restore_average(folder, trainer.average, state.average)
    check_optimizer(folder, trainer.optimizer, state.optimizer)
    restore_optimizer(trainer.optimizer, state.optimizer)
    restore_objective(folder, trainer.objective, state.objective)


def restore_objective(folder: Path, objective: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Restore the objective's state from a checkpoint."""
    differing = _differing(objective.state_dict(), tensors)
    if differing:
        raise CheckpointError(f"{folder}: the objectives' state does not fit the recipe: {', '.join(differing[:8])}.")
    objective.load_state_dict(tensors)


def restore_average(folder: Path, average: Average, tensors: dict[str, Tensor]) -> None:
    """Restore the weights under training, after the evaluated weights have been loaded into the model."""
    differing = _differing(average.state(), tensors)
    if differing:
        raise CheckpointError(f"{folder}: the averaged weights do not fit the recipe: {', '.join(differing[:8])}.")
    average.restore(tensors)


def read_state(folder: Path) -> TrainerState:
    """Return the trainer's state of a `last` checkpoint."""
    path = folder / "trainer.json"
    if not path.is_file():
        raise CheckpointError(f"{folder}: no trainer state here; only checkpoints/last can be resumed.")
    facts = _read_json(path)
    return TrainerState(
        position=facts["position"],
        best=facts["best"],
        optimizer=_load_tensors(folder / "optimizer.safetensors"),
        random=_load_tensors(folder / "random.safetensors"),
        objective=_load_tensors_if_there(folder / "objective.safetensors"),
        average=_load_tensors_if_there(folder / "weights.safetensors"),
    )


def module_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's state by name, on the CPU, as files need it."""
    return _plain(module.state_dict())


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Flatten an optimizer's state: parameter number and name → tensor."""
    return {
        f"{number}.{name}": value.detach().cpu().contiguous()
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def check_optimizer(folder: Path, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Raise CheckpointError unless a flattened state fits the optimizer: a wrong shape would crash its fused step."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    wrong = []
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        known = number.isdecimal() and int(number) < len(parameters) and name in ("step", "exp_avg", "exp_avg_sq")
        shape = () if name == "step" or not known else parameters[int(number)].shape
        if not known or value.shape != shape or not value.is_floating_point() or not value.isfinite().all():
            wrong.append(key)
    numbers = {key.partition(".")[0] for key in tensors}
    wrong += [
        f"{n}.{name}" for n in numbers for name in ("step", "exp_avg", "exp_avg_sq") if f"{n}.{name}" not in tensors
    ]
    if wrong:
        raise CheckpointError(
            f"{folder / 'optimizer.safetensors'}: does not fit the model: {', '.join(sorted(set(wrong))[:8])}.",
            hint="Train again with --force, or into another folder with --out.",
        )


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore a flattened state."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _differing(wanted: dict[str, Tensor], tensors: dict[str, Tensor]) -> list[str]:
    """Return the names that only one side has or whose shapes differ."""
    shapes = {name: value.shape for name, value in wanted.items()}
    found = {name: value.shape for name, value in tensors.items()}
    return sorted(name for name in shapes.keys() | found.keys() if shapes.get(name) != found.get(name))


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from error


def _load_tensors_if_there(path: Path) -> dict[str, Tensor]:
    return _load_tensors(path) if path.exists() else {}


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, path)
    path.chmod(0o644)  # safetensors hides its files from others


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: {error}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: damaged: expected an object, found a {type(value).__name__}.")
    return value


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
