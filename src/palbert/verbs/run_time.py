"""RunTime: how long a run will take, estimated from a few steps and dev rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from palbert.build import build_inference
from palbert.data.collate import sequence_lengths
from palbert.data.dataset import Dataset
from palbert.inference.evaluator import Inference
from palbert.tasks.spec import Task
from palbert.training.progress_hooks import evaluations_after
from palbert.training.timing import StepTime
from palbert.training.trainer import Trainer
from palbert.verbs.baselines import PROBED_ROWS
from palbert.verbs.pretrain import PretrainingJob
from palbert.verbs.train import TrainingJob

ROWS = 128
"""Dev rows of each task that are measured, spread evenly over the file."""
FORWARD = 1 / 3
"""The share of a training step that its forward pass takes."""


@dataclass(frozen=True)
class RunTime:
    """Seconds that a run will take, without loading its data."""

    steps: float = 0.0
    """All training steps, further pretraining included."""
    evaluation: float = 0.0
    """All evaluations: before training, after epochs and within them, and for the report."""
    baselines: float = 0.0
    """The vectors of the untrained encoder that baselines are computed from."""
    limit: float | None = None
    """The recipe's time limit."""

    @property
    def total(self) -> float:
        """All of it; a run with a time limit, or with patience, may finish earlier."""
        return self.steps + self.evaluation + self.baselines

    def after(self, other: RunTime) -> RunTime:
        """Return the time with that of something that comes first."""
        return replace(self, steps=self.steps + other.steps, evaluation=self.evaluation + other.evaluation)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "total": self.total}


def time_of_tasks(run: TrainingJob, phases: Sequence[StepTime], *, evaluations: int) -> RunTime:
    """Return the time of a run's phases.

    Args:
        run: The run.
        phases: The steps of each phase.
        evaluations: How many evaluations all phases have.
    """
    inference = build_inference(run.model, tokenizer=run.tokenizer, machine=run.machine)
    once, probes = 0.0, 0.0
    for name, dev in run.dev.items():
        task = run.recipe.tasks[name]
        per_token = _seconds_per_token(inference, task, dev)
        once += per_token * _tokens(inference, task, dev)
        train = run.sets[name].rows
        share = min(1.0, PROBED_ROWS / max(len(train), 1))
        probes += per_token * (_tokens(inference, task, dev) + share * _tokens(inference, task, train))
    evaluations += 2  # before training, and for the report
    steps = sum(phase.seconds for phase in phases)
    return RunTime(steps, evaluations * once, probes, run.recipe.training.time_limit)


def time_of_pretraining(run: PretrainingJob, steps: StepTime) -> RunTime:
    """Return the time of further pretraining: its steps, and the held-out loss before and after each epoch."""
    held_out = sum(int(column.lengths.sum()) for column in run.held_out.tokens)
    evaluations = 1 + len(run.trainer.epochs)
    return RunTime(steps.seconds, evaluations * held_out * steps.per_token * FORWARD)


def evaluations_in(trainer: Trainer) -> int:
    """Return the evaluations of a trainer's own epochs."""
    steps = trainer.steps
    after = evaluations_after(steps.stop, trainer)
    return evaluations_after(steps.start, trainer) - after


def _seconds_per_token(inference: Inference, task: Task, dev: Dataset) -> float:
    """Measure the answers to some rows; a few before them warm up."""
    chosen = dev.take(np.unique(np.linspace(0, len(dev) - 1, ROWS).astype(np.int64)))
    inference.answer(task, tuple(column.take(np.arange(min(4, len(chosen)))) for column in chosen.tokens))
    start = time.perf_counter()
    inference.answer(task, chosen.tokens)
    return (time.perf_counter() - start) / max(_tokens(inference, task, chosen), 1)


def _tokens(inference: Inference, task: Task, rows: Dataset) -> int:
    lengths = sequence_lengths(rows.tokens, inference.template, max_length=task.max_length, siamese=task.siamese)
    return int(lengths.sum())
