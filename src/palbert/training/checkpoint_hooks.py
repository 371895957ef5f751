"""Hooks that save: when checkpoints are written, which are the best, and what each rank contributes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import TrainingError
from palbert.metrics import find_metric
from palbert.runtime.durable import sync_appended
from palbert.runtime.files import disk_errors
from palbert.runtime.seeding import random_state
from palbert.training.checkpoint import (
    TrainerState,
    link_checkpoint,
    module_tensors,
    read_description,
    save_checkpoint,
)
from palbert.training.optimizer_state import optimizer_tensors
from palbert.training.trainer import Evaluation, Hook, Trainer


class CheckpointHook(Hook, ABC):
    """Save every few steps, after every evaluation, and when the run is stopped.

    A checkpoint holds the generator states of all ranks, so every rank has such a hook, with the same `every`: the
    first rank writes the checkpoint, and the others send their states.
    """

    def __init__(self, *, every: int) -> None:
        self.every = every

    @abstractmethod
    def save(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Do this rank's part of saving; `evaluation` is the one that has just been made, if one has."""

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Save every few steps."""
        if trainer.position.step % self.every == 0:
            self.save(trainer, None)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Save after an evaluation."""
        self.save(trainer, evaluation)

    def on_stop(self, trainer: Trainer) -> None:
        """Save at the step where the run stopped."""
        self.save(trainer, None)


class SendRandomState(CheckpointHook):
    """Send the state of this rank's random number generators to the first rank, which writes the checkpoint."""

    def save(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Send the states."""
        random_state(trainer.parameters[0].device, trainer.ranks)


class Checkpoints(CheckpointHook):
    """Write `last`, and link it as `best` and `best-<task>` where its scores are the highest so far.

    The best scores in a checkpoint do not include its own: a resumed run links the checkpoint again, in case the old
    one was killed before it could.

    Args:
        folder: Where the checkpoints go.
        tokenizer: Saved with every checkpoint.
        description: The content of palbert.json about the model.
        metrics: The metric of each task by which its best checkpoint is chosen.
        every: Steps between two checkpoints of an epoch.
        best: The best scores so far, by checkpoint; those of the run that is resumed.
        logs: Files that the run appends to; what they hold is flushed before each checkpoint, so that a resumed run
            never lacks lines from before its checkpoint.
    """

    def __init__(
        self,
        folder: Path,
        tokenizer: TextTokenizer,
        *,
        description: dict[str, Any],
        metrics: dict[str, str],
        every: int,
        best: dict[str, float] | None = None,
        logs: Sequence[Path] = (),
    ) -> None:
        super().__init__(every=every)
        self.folder = folder
        self.tokenizer = tokenizer
        self.description = description
        self.metrics = metrics
        self.best = dict(best or {})
        self.logs = logs

    def on_start(self, trainer: Trainer) -> None:
        """Link `last` as best where its scores are the highest, in case a killed run did not."""
        if trainer.position.step:
            self._link_best(read_description(self.folder / "last")["scores"])

    def save(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Write `last`; after an evaluation, link it as best where its scores are the highest."""
        if not all(bool(parameter.isfinite().all()) for parameter in trainer.parameters):
            raise TrainingError(
                f"The weights are no longer numbers at step {trainer.position.step}; the last checkpoint is kept.",
                hint="Lower optimizer.learning_rate, or set a smaller training.clip.",
            )
        for log in self.logs:
            with disk_errors(log):
                sync_appended(log)
        scores: dict[str, Any] = {}
        if evaluation:
            scores = {"epoch": evaluation.epoch, "overall": evaluation.overall, "tasks": evaluation.tasks}
        save_checkpoint(
            self.folder / "last",
            trainer.average.model,
            self.tokenizer,
            description={**self.description, "step": trainer.position.step, "scores": scores},
            state=TrainerState(
                position=trainer.position.as_dict(),
                best=self.best,
                optimizer=optimizer_tensors(trainer.optimizer),
                random=random_state(trainer.parameters[0].device, trainer.ranks),
                objective=module_tensors(trainer.objective),
                average=trainer.average.state(),
            ),
        )
        self._link_best(scores)

    def _link_best(self, found: dict[str, Any]) -> None:
        """Link `last` wherever its scores are the highest so far; between evaluations it has none."""
        if not found:
            return
        scores = {"best": found["overall"]}
        for task, metric in self.metrics.items():
            scores[f"best-{task}"] = find_metric(metric).scaled(found["tasks"][task][metric])
        for name, score in scores.items():
            if score > self.best.get(name, -math.inf):
                link_checkpoint(self.folder / "last", self.folder / name)
                self.best[name] = score
