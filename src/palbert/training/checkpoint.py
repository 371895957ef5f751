"""Checkpoints: safetensors and JSON, written completely or not at all; nothing needs pickle."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import CheckpointError
from palbert.model.families.weights import FLOATS
from palbert.runtime.checksums import RECORD, Recorder, check_folder, checked, link_file, read_record, write_record
from palbert.runtime.files import new_folder, recover_folder
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import LAST, PREVIOUS, RunFolder
from palbert.training.averaging import Average
from palbert.training.optimizer_state import check_optimizer, numbers_in, restore_optimizer
from palbert.training.trainer import Trainer

FORMAT = 1
MODEL_FILES = ("model.safetensors", "palbert.json", "tokenizer.json")

OTHER = "Take another checkpoint of the run with --checkpoint, or train again."
AGAIN = "Train again with --force, or into another folder with --out; predict and evaluate take other checkpoints."

log = logging.getLogger(__name__)


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
    """Write a checkpoint that replaces `folder` once it is complete; the replaced one stays as `previous`."""
    former = folder.with_name(PREVIOUS)
    with closing(Recorder()) as record, new_folder(folder, former=former, flush=record.finish) as temporary:
        for name, tensors in _tensors_of(model, state):  # the largest first: each is hashed during the next
            _write_tensors(temporary / name, tensors)
            record.add(temporary / name)
        _write_json(temporary / "palbert.json", {"format": FORMAT, **description})
        tokenizer.save(temporary / "tokenizer.json")
        facts = {"position": state.position, "best": state.best, "optimized": len(numbers_in(state.optimizer))}
        _write_json(temporary / "trainer.json", facts)
        for name in ("palbert.json", "tokenizer.json", "trainer.json"):
            record.add(temporary / name)


def save_model(
    folder: Path, tensors: dict[str, Tensor], tokenizer: TextTokenizer, *, description: dict[str, Any]
) -> None:
    """Write a checkpoint that cannot be resumed: weights that no trainer has left."""
    with closing(Recorder()) as record, new_folder(folder, flush=record.finish) as temporary:
        _write_tensors(temporary / "model.safetensors", tensors)
        _write_json(temporary / "palbert.json", {"format": FORMAT, **description})
        tokenizer.save(temporary / "tokenizer.json")
        for name in MODEL_FILES:
            record.add(temporary / name)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint by name, as its file holds them, after comparing it with its hash."""
    return _load_tensors(folder / "model.safetensors")


def _tensors_of(model: nn.Module, state: TrainerState) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Yield the tensors of each file; the model's are copied from the device only when its file is written."""
    yield "optimizer.safetensors", state.optimizer
    yield "model.safetensors", module_tensors(model)
    if state.average:  # otherwise the weights under training are the model's own
        yield "weights.safetensors", _plain(state.average)
    if state.objective:  # most objectives have no state
        yield "objective.safetensors", state.objective
    yield "random.safetensors", state.random


def link_checkpoint(source: Path, target: Path) -> None:
    """Make `target` the same checkpoint without the trainer's state, as hard links where the file system has them."""
    record = read_record(source)
    with new_folder(target) as temporary:
        for name in MODEL_FILES:
            link_file(source / name, temporary / name)
        if record is not None:  # absent if an earlier version wrote the source
            write_record(temporary, {name: record[name] for name in MODEL_FILES})


def read_description(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's palbert.json; raise CheckpointError if it is missing, damaged or of another format."""
    recover_folder(folder)
    path = checked(folder / "palbert.json")
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: no checkpoint here (palbert.json is missing).",
            hint="Give a run folder or one of its checkpoints.",
        )
    description = read_object(path, raises=CheckpointError, hint=OTHER)
    if description.get("format") != FORMAT:
        raise CheckpointError(
            f"{folder}: written in checkpoint format {description.get('format')} by palbert "
            f"{description.get('palbert', 'of an unknown version')}; this palbert reads format {FORMAT}.",
            hint="Use the palbert that wrote it, or train again.",
        )
    return description


def load_weights(folder: Path, model: nn.Module) -> None:
    """Load a checkpoint's weights into a model."""
    if read_record(folder) is None:
        log.warning(
            "%s: has no %s, as in earlier versions: damage to its files would not be noticed. To add it, run there: "
            "sha256sum *.json *.safetensors > %s",
            folder, RECORD, RECORD,
        )  # fmt: skip
    model.load_state_dict(map_weights(folder, model))


def map_weights(folder: Path, model: nn.Module) -> dict[str, Tensor]:
    """Return a checkpoint's weights for a model; the file is mapped, and read where a weight is used."""
    weights = _load_tensors(folder / "model.safetensors")
    differing = _differing(model.state_dict(), weights)
    if differing:
        raise CheckpointError(f"{folder}: the weights do not fit palbert.json: {', '.join(differing[:8])}.")
    _refuse_other_kinds(folder / "model.safetensors", model.state_dict(), weights)
    _refuse_broken(folder / "model.safetensors", weights, hint=OTHER)
    return weights


def restore_trainer(folder: Path, trainer: Trainer, state: TrainerState) -> None:
    """Restore the average of the weights, the optimizer and the objective."""
    restore_average(folder, trainer.average, state.average)
    check_optimizer(folder, trainer.optimizer, state.optimizer, hint=AGAIN)
    restore_optimizer(trainer.optimizer, state.optimizer)
    restore_objective(folder, trainer.objective, state.objective)


def restore_objective(folder: Path, objective: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Restore the objective's state from a checkpoint."""
    differing = _differing(objective.state_dict(), tensors, dtypes=True)
    if differing:
        raise CheckpointError(f"{folder}: the objectives' state does not fit the recipe: {', '.join(differing[:8])}.")
    objective.load_state_dict(tensors)


def restore_average(folder: Path, average: Average, tensors: dict[str, Tensor]) -> None:
    """Restore the weights under training, after the evaluated weights have been loaded into the model."""
    differing = _differing(average.state(), tensors, dtypes=True)
    if differing:
        raise CheckpointError(f"{folder}: the averaged weights do not fit the recipe: {', '.join(differing[:8])}.")
    _refuse_broken(folder / "weights.safetensors", tensors, hint=AGAIN)
    average.restore(tensors)


def read_state(folder: Path) -> TrainerState:
    """Return the trainer's state of a `last` checkpoint."""
    path = checked(folder / "trainer.json")
    if not path.is_file():
        raise CheckpointError(f"{folder}: no trainer state here; only checkpoints/last can be resumed.")
    facts = read_object(path, raises=CheckpointError, hint=AGAIN)
    if missing := [name for name in ("position", "best") if name not in facts]:
        raise CheckpointError(f"{path}: damaged: no '{missing[0]}'.", hint=AGAIN)
    optimizer = _load_tensors(folder / "optimizer.safetensors")
    found = len(numbers_in(optimizer))
    if facts.get("optimized", found) != found:  # earlier versions did not count them
        raise CheckpointError(
            f"{folder / 'optimizer.safetensors'}: expected the state of {facts['optimized']!r:.20} parameters, as "
            f"trainer.json says, found {found}.",
            hint=AGAIN,
        )
    return TrainerState(
        position=facts["position"],
        best=facts["best"],
        optimizer=optimizer,
        random=_load_tensors(folder / "random.safetensors"),
        objective=_load_tensors(folder / "objective.safetensors", optional=True),
        average=_load_tensors(folder / "weights.safetensors", optional=True),
    )


def read_last(run: RunFolder, check: Callable[[Path, TrainerState], None]) -> TrainerState:
    """Return the state to resume from: that of `last`, or of the checkpoint before it if a file of `last` is damaged.

    The checkpoint before it then replaces the damaged one.

    Args:
        run: The run folder.
        check: Raises CheckpointError for a state that does not fit the run; it is given the path of trainer.json, too.

    Raises:
        CheckpointError: Both are damaged, or there is only one.
    """

    def read(folder: Path) -> TrainerState:
        check_folder(folder)
        read_description(folder)  # refuses other formats
        state = read_state(folder)
        check(folder / "trainer.json", state)
        return state

    try:
        return read(run.checkpoint(LAST))
    except CheckpointError as error:
        damage = error
    if not run.previous.is_dir():
        raise CheckpointError(f"{damage.message} There is no checkpoint before it.", hint=AGAIN) from damage
    try:
        state = read(run.previous)
    except CheckpointError as error:
        raise CheckpointError(f"{damage.message} So is the one before it: {error.message}", hint=AGAIN) from error
    step = state.position.get("step")
    log.warning("%s The run continues from the checkpoint before it, of step %s.", damage.message, step)
    run.restore_previous()
    return state


def module_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's state by name, on the CPU, as files need it."""
    return _plain(module.state_dict())


def _differing(wanted: dict[str, Tensor], tensors: dict[str, Tensor], *, dtypes: bool = False) -> list[str]:
    """Return the names that only one side has or whose shapes differ, or whose number formats do."""
    kinds, found = (
        {name: (value.shape, value.dtype if dtypes else None) for name, value in side.items()}
        for side in (wanted, tensors)
    )
    return sorted(name for name in kinds.keys() | found.keys() if kinds.get(name) != found.get(name))


def _refuse_other_kinds(path: Path, wanted: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Raise CheckpointError for weights in other number formats than the model's, except between those of floats."""
    pairs = {name: {value.dtype, wanted[name].dtype} for name, value in tensors.items()}
    if other := [name for name, pair in pairs.items() if len(pair) > 1 and not pair.issubset(FLOATS)]:
        described = ", ".join(f"{name} is {tensors[name].dtype}" for name in other[:8])
        raise CheckpointError(f"{path}: expected weights of type {wanted[other[0]].dtype}: {described}.", hint=OTHER)


def _refuse_broken(path: Path, tensors: dict[str, Tensor], *, hint: str) -> None:
    """Raise CheckpointError for weights that are NaN or infinite."""
    broken = [name for name, value in tensors.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        raise CheckpointError(f"{path}: holds weights that are not numbers: {', '.join(broken[:8])}.", hint=hint)


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def _load_tensors(path: Path, *, optional: bool = False) -> dict[str, Tensor]:
    """Load a file whose hash is as recorded; no tensors if an optional one is neither there nor recorded."""
    checked(path)
    if optional and not path.exists():
        return {}
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from error


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, path)
    path.chmod(0o644)  # safetensors hides its files from others


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
