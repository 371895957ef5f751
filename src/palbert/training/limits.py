"""Limits: hooks that finish a run before its last epoch, after some time or when it no longer gets better."""

from __future__ import annotations

import math
import time
from pathlib import Path

from torch import Tensor

from palbert.runtime.durations import duration_text
from palbert.training.hooks import read_records
from palbert.training.trainer import Evaluation, Hook, Trainer


class TimeLimit(Hook):
    """Count the time of the run, and finish it when a limit is reached.

    A resumed run continues from the time of its checkpoint, so this hook comes before the one that saves.

    Args:
        limit: Seconds; no limit unless given.
    """

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self.clock = 0.0

    def on_start(self, trainer: Trainer) -> None:
        """Start the clock; a run that has used its time up is finished."""
        self.clock = time.perf_counter()
        self._finish_if_due(trainer)

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Count the time of the step."""
        self._count(trainer)
        self._finish_if_due(trainer)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Count the time of the evaluation."""
        self._count(trainer)
        self._finish_if_due(trainer)

    def on_stop(self, trainer: Trainer) -> None:
        """Count the time until the stop."""
        self._count(trainer)

    def _count(self, trainer: Trainer) -> None:
        now = time.perf_counter()
        trainer.position.elapsed += now - self.clock
        self.clock = now

    def _finish_if_due(self, trainer: Trainer) -> None:
        if trainer.position.elapsed >= self.limit:
            trainer.finish(f"the time limit of {duration_text(self.limit)} was reached (training.time_limit).")


class Patience(Hook):
    """Finish a run whose overall score has not become better for some evaluations.

    A run with phases always reaches its last phase, and only the evaluations in that one count. Earlier scores are read
    from metrics.jsonl, so a resumed run takes the same decisions.

    Args:
        evaluations: How many evaluations without a better score end the run.
        metrics: The file metrics.jsonl.
    """

    def __init__(self, evaluations: int, *, metrics: Path) -> None:
        self.evaluations = evaluations
        self.metrics = metrics
        self.scores: list[float] = []

    def on_start(self, trainer: Trainer) -> None:
        """Read the scores of the phase so far."""
        done = trainer.epochs.start - 1
        records = [record for record in read_records(self.metrics) if record["kind"] == "evaluation"]
        self.scores = [record["overall"] for record in records if record["epoch"] > done]
        self._finish_if_due(trainer)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Compare the score with the best one."""
        self.scores.append(evaluation.overall)
        self._finish_if_due(trainer)

    def _finish_if_due(self, trainer: Trainer) -> None:
        is_last_phase = trainer.epochs.stop > trainer.sampler.epochs
        if not is_last_phase or not self.scores:
            return
        best = max(self.scores)
        if len(self.scores) - 1 - self.scores.index(best) >= self.evaluations:
            count = "1 evaluation" if self.evaluations == 1 else f"{self.evaluations} evaluations"
            trainer.finish(f"no overall score better than {best:.4f} in {count} (training.patience).")
