"""Dry run: load and check everything as training does, and find the peak memory of the largest steps."""

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
    """The memory of the largest step of a phase."""

    phase: str
    """The phase's name or number; "pretraining" for further pretraining, which comes first."""
    load: Load
    """The step: of the largest steps of every combination of sets, the one with the highest predicted peak."""
    predicted: Footprint
    """Bytes at its peak, predicted from smaller steps."""
    measured: int | None
    """Bytes at its peak, measured; None if it does not fit."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        predicted = {**asdict(self.predicted), "total": self.predicted.total}
        load = {"step": self.load.step, "sets": list(self.load.sets), "tokens": self.load.tokens}
        return {"phase": self.phase, **load, "predicted": predicted, "measured": self.measured}


@dataclass(frozen=True)
class DryRun:
    """The memory that a run would take."""

    device: str
    """Where the run would compute."""
    precision: str
    """The number format."""
    capacity: int | None
    """Bytes of memory that the CUDA device has; None elsewhere."""
    measured_by: str
    """What the measured bytes are."""
    phases: tuple[PhaseMemory, ...]
    """Every phase, with further pretraining as the first if the recipe has it."""

    @property
    def worst(self) -> PhaseMemory:
        """The phase with the highest predicted peak."""
        return max(self.phases, key=lambda phase: phase.predicted.total)

    @property
    def summary(self) -> dict[str, Any]:
        """Plain values, for JSON and the terminal."""
        facts = {name: value for name, value in asdict(self).items() if name != "phases"}
        return {**facts, "worst": self.phases.index(self.worst), "phases": [phase.as_dict() for phase in self.phases]}


def dry_run(recipe: Recipe | str | Path, *, overrides: Sequence[str] = ()) -> DryRun:
    """Load and check everything that a recipe needs, and find the memory of its largest steps; write nothing.

    Args:
        recipe: A recipe, its file, or the name of a built-in one.
        overrides: Settings as `key=value`.
    """
    if find_ranks().size > 1:
        raise DeviceError("A dry run takes one process.", hint="Start it without torchrun.")
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides=overrides)
    nowhere = RunFolder(Path("runs") / "dry-run")  # never written to
    run = TrainingRun(recipe, nowhere).prepare()
    phases = []
    if recipe.pretraining:  # the tasks' model waits on the device meanwhile
        waiting = bytes_of(held_by(run.trainer))
        pretraining = PretrainingRun(run.recipe, nowhere).prepare()
        phases.append(
            _probe("pretraining", pretraining.trainer, dict(pretraining.trainer.position.draws), waiting=waiting)
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
        else "tensors that were alive at once",
        phases=tuple(phases),
    )


def _probe(phase: str, trainer: Trainer, draws: dict[str, int], *, waiting: int = 0) -> PhaseMemory:
    gc.collect()  # tensors that only cycles still hold would be counted
    log.info("looking for the largest of %s steps", f"{len(trainer.steps):,}")
    loads = largest_loads(trainer, draws)
    prober = Prober(trainer, loads, waiting=waiting)
    prober.warm_up()
    predicted = {load.sets: prober.predict(load) for load in loads}
    largest = max(loads, key=lambda load: predicted[load.sets].total)
    return PhaseMemory(phase, largest, predicted[largest.sets], prober.measure(largest))
