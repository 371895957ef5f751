"""Dry run: everything is loaded and checked as for training, and the memory of a step is predicted and measured."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from palbert.errors import DeviceError
from palbert.recipe.load import load_recipe
from palbert.recipe.schema import Recipe
from palbert.runtime.distributed import find_ranks
from palbert.runtime.memory import bytes_of
from palbert.runtime.run_folder import RunFolder
from palbert.training.footprint import Footprint, Load, Prober, held_by, largest_loads
from palbert.training.trainer import Trainer
from palbert.verbs.pretrain import PretrainingRun
from palbert.verbs.train import TrainingRun

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PhaseMemory:
    """What the largest step of a phase takes."""

    phase: str
    """The phase's name or number; "pretraining" before all others, where the recipe has it."""
    load: Load
    """The step: of the largest ones of every combination of sets, the one that is predicted to need most."""
    predicted: Footprint
    """Bytes at its peak, predicted from small steps."""
    measured: int | None
    """Bytes at its peak, as it was taken; None if it does not fit."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        predicted = {**asdict(self.predicted), "total": self.predicted.total}
        load = {"step": self.load.step, "sets": list(self.load.sets), "tokens": self.load.tokens}
        return {"phase": self.phase, **load, "predicted": predicted, "measured": self.measured}


@dataclass(frozen=True)
class DryRun:
    """What a run would take."""

    device: str
    """Where it would compute."""
    precision: str
    """In which number format."""
    capacity: int | None
    """Bytes that a CUDA device has in all; None elsewhere."""
    measured_by: str
    """What the measured bytes are."""
    phases: tuple[PhaseMemory, ...]
    """Every phase; one unless the recipe has several, or further pretraining."""

    @property
    def worst(self) -> PhaseMemory:
        """The phase that is predicted to need most."""
        return max(self.phases, key=lambda phase: phase.predicted.total)

    @property
    def summary(self) -> dict[str, Any]:
        """Plain values, for JSON and the terminal."""
        facts = {name: value for name, value in asdict(self).items() if name != "phases"}
        return {**facts, "worst": self.phases.index(self.worst), "phases": [phase.as_dict() for phase in self.phases]}


def dry_run(recipe: Recipe | str | Path, *, overrides: Sequence[str] = ()) -> DryRun:
    """Load and check all that a recipe needs, and find out the memory of its largest steps; write nothing.

    Args:
        recipe: A recipe, its file, or the name of a built-in one.
        overrides: Settings as `key=value`.
    """
    if find_ranks().size > 1:
        raise DeviceError("A dry run takes one process.", hint="Start it without torchrun.")
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides=overrides)
    nowhere = RunFolder(Path("runs") / "dry-run")  # only looked at: it must not be the encoder
    run = TrainingRun(recipe, nowhere).prepare()
    phases = []
    if recipe.pretraining:  # while the tasks' model waits
        beside = bytes_of(held_by(run.trainer))
        pretraining = PretrainingRun(run.recipe, nowhere).prepare()
        phases.append(
            _probe("pretraining", pretraining.trainer, dict(pretraining.trainer.position.draws), beside=beside)
        )
        del pretraining
    draws = dict(run.trainer.position.draws)
    for phase in range(len(run.phases)):
        run.trainer = run.make_trainer(phase)  # replaces the one before, as in a run
        phases.append(_probe(run.phase_name(phase) or str(phase + 1), run.trainer, draws))
    device = run.machine.device
    cuda = device.type == "cuda"
    return DryRun(
        device=str(device),
        precision=run.machine.precision,
        capacity=torch.cuda.get_device_properties(device).total_memory if cuda else None,
        measured_by="torch.cuda.max_memory_allocated, and what capturing the step took"
        if cuda
        else "tensors that lived at once, counted at every operation",
        phases=tuple(phases),
    )


def _probe(phase: str, trainer: Trainer, draws: dict[str, int], *, beside: int = 0) -> PhaseMemory:
    gc.collect()  # what lived before and is only held in circles would be counted
    log.info("looking for the largest of %s steps", f"{len(trainer.steps):,}")
    loads = largest_loads(trainer, draws)
    prober = Prober(trainer, loads, beside=beside)
    predicted = {load.sets: prober.predict(load) for load in loads}
    largest = max(loads, key=lambda load: predicted[load.sets].total)
    return PhaseMemory(phase, largest, predicted[largest.sets], prober.measure(largest))
