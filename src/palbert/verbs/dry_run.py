"""Dry run: load and check everything as training does; find the peak memory of the largest steps, and the time."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from palbert.errors import DeviceError
from palbert.recipe.schema import Recipe
from palbert.registry.trust import trusting
from palbert.reporting.display import memory_table
from palbert.runtime.distributed import find_ranks
from palbert.runtime.memory import bytes_of
from palbert.runtime.run_folder import RunFolder
from palbert.training.footprint import Footprint, Load, Prober, held_by, largest_loads
from palbert.training.timing import StepTime, time_steps
from palbert.training.trainer import Trainer
from palbert.verbs.in_memory import AnyRecipe, Data, staged
from palbert.verbs.pretrain import PretrainingJob
from palbert.verbs.run_time import RunTime, evaluations_in, time_of_pretraining, time_of_tasks
from palbert.verbs.train import TrainingJob

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


@dataclass(frozen=True, repr=False)
class DryRun:
    """The memory and the time that a run would take."""

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
    time: RunTime | None
    """The estimated time; None if a step does not fit into the memory."""

    def __repr__(self) -> str:
        return memory_table(self.summary).text()

    def _repr_html_(self) -> str:
        return memory_table(self.summary).html()

    @property
    def worst(self) -> PhaseMemory:
        """The phase with the highest predicted peak."""
        return max(self.phases, key=lambda phase: phase.predicted.total)

    @property
    def summary(self) -> dict[str, Any]:
        """Plain values, for JSON and the terminal."""
        facts = {name: value for name, value in asdict(self).items() if name not in ("phases", "time")}
        phases = [phase.as_dict() for phase in self.phases]
        estimated = self.time.as_dict() if self.time else None
        return {**facts, "worst": self.phases.index(self.worst), "phases": phases, "time": estimated}


@dataclass(frozen=True)
class _Probed:
    """What the steps of one phase have shown."""

    memory: PhaseMemory
    steps: StepTime | None
    """None if a step does not fit."""
    evaluations: int


def dry_run(
    recipe: AnyRecipe, *, data: Data | None = None, overrides: Sequence[str] = (), trust: bool = False
) -> DryRun:
    """Load and check everything that a recipe needs, find the memory of its largest steps and its time; write nothing.

    Args:
        recipe: A recipe, its file, the name of a built-in one, or its settings as a dict.
        data: Rows by task, in place of files, as `palbert.train` takes them.
        overrides: Settings as `key=value`.
        trust: Whether code from outside palbert may be imported that teachers and other runs name.
    """
    if find_ranks().size > 1:
        raise DeviceError("A dry run takes one process.", hint="Start it without torchrun.")
    with staged(data) as rows, trusting(trust):
        return _dry_run(rows.load(recipe, overrides=overrides))


def _dry_run(recipe: Recipe) -> DryRun:
    nowhere = RunFolder(Path("runs") / "dry-run")  # never written to
    run = TrainingJob(recipe, nowhere).prepare()
    memory, before = [], RunTime()
    if recipe.pretraining:  # the tasks' model waits on the device meanwhile
        waiting = bytes_of(held_by(run.trainer))
        pretraining = PretrainingJob(run.recipe, nowhere).prepare()
        first = _probe("pretraining", pretraining.trainer, dict(pretraining.trainer.position.draws), waiting=waiting)
        memory.append(first.memory)
        if first.steps:
            before = time_of_pretraining(pretraining, first.steps)
        del pretraining
    draws = dict(run.trainer.position.draws)
    phases = []
    for phase in range(len(run.phases)):
        run.trainer = run.make_trainer(phase)  # replaces the one before, as in a run
        phases.append(_probe(run.phase_name(phase) or str(phase + 1), run.trainer, draws))
    memory += [phase.memory for phase in phases]
    device = run.machine.device
    cuda = device.type == "cuda"
    return DryRun(
        device=str(device),
        precision=run.machine.precision,
        capacity=torch.cuda.get_device_properties(device).total_memory if cuda else None,
        measured_by="torch.cuda.max_memory_allocated, and what capturing the step took"
        if cuda
        else "tensors that were alive at once",
        phases=tuple(memory),
        time=_time(run, phases, before) if all(phase.measured is not None for phase in memory) else None,
    )


def _probe(phase: str, trainer: Trainer, draws: dict[str, int], *, waiting: int = 0) -> _Probed:
    gc.collect()  # tensors that only cycles still hold would be counted
    log.info("looking for the largest of %s steps", f"{len(trainer.steps):,}")
    start = dict(draws)
    loads = largest_loads(trainer, draws)
    prober = Prober(trainer, loads, waiting=waiting)
    prober.warm_up()
    predicted = {load.sets: prober.predict(load) for load in loads}
    largest = max(loads, key=lambda load: predicted[load.sets].total)
    memory = PhaseMemory(phase, largest, predicted[largest.sets], prober.measure(largest))
    trainer.execution = prober.execution  # captured, if steps can be
    steps = time_steps(trainer, start) if memory.measured is not None else None
    return _Probed(memory, steps, evaluations_in(trainer))


def _time(run: TrainingJob, phases: Sequence[_Probed], before: RunTime) -> RunTime:
    steps = [phase.steps for phase in phases if phase.steps]
    return time_of_tasks(run, steps, evaluations=sum(phase.evaluations for phase in phases)).after(before)
