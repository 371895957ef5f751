"""ShowProgress: the hook that shows a run while it trains, its table of scores and the time left."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from palbert.runtime.display import Display
from palbert.runtime.durations import clock_text
from palbert.runtime.score_table import Row
from palbert.training.hooks import read_records
from palbert.training.trainer import Evaluation, Hook, Trainer

RECENT = 50
"""Steps whose mean duration predicts the time left."""


class ShowProgress(Hook):
    """Show steps, losses and scores.

    It is a hook, and a writer of MetricsLog: the losses come from the lines of metrics.jsonl, so that the host does not
    wait for the device more often.

    Args:
        display: Where to.
        metrics: The main metric of each task; the first one for tasks without.
        path: The file metrics.jsonl, with the evaluations of the run that is resumed.
        limit: Seconds after which the run finishes.
        keeps_start: Whether the model before training can be the best one.
    """

    def __init__(
        self,
        display: Display,
        *,
        metrics: Mapping[str, str],
        path: Path,
        limit: float = math.inf,
        keeps_start: bool = False,
    ) -> None:
        self.display = display
        self.metrics = metrics
        self.path = path
        self.limit = limit
        self.keeps_start = keeps_start
        self.losses: dict[str, list[float]] = {}
        self.detail = ""
        self.best = -math.inf
        self.pace = Pace()
        self._rows = 0

    def on_start(self, trainer: Trainer) -> None:
        """Show the evaluations of the run that is resumed, and begin to show steps."""
        if not self._rows:
            for record in read_records(self.path):
                if record["kind"] == "evaluation":
                    self._show(record["epoch"], record["step"], record["overall"], record["tasks"], time="")
        self.losses = {}
        self.pace.start()
        self.display.start(trainer.total_steps, trainer.position.step)

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Remember the losses of a line of metrics.jsonl."""
        if record["kind"] != "train":
            return
        losses = {name: loss for name, loss in record["losses"].items() if loss is not None}
        for name, loss in losses.items():
            self.losses.setdefault(name, []).append(loss)
        shown = "  ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
        self.detail = f"epoch {record['epoch']}  loss {_mean(losses.values()):.3f}" + f"  {shown}" * (len(losses) > 1)

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Show the step."""
        self.pace.step()
        left = min(self.pace.left(trainer), self.limit - trainer.position.elapsed)
        self.display.step(trainer.position.step, left=max(0.0, left), detail=self.detail)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Add a row to the table."""
        if not self.losses:  # no line since the last row: the losses so far
            self.losses = {name: [float(loss) for loss in own] for name, own in trainer.position.losses.items()}
        self.show(evaluation, elapsed=trainer.position.elapsed)
        self.pace.evaluation(evaluation.seconds)

    def on_end(self, trainer: Trainer) -> None:
        """Show no more steps; say why a run has finished early."""
        self.display.stop()
        if trainer.finishing:
            step, total = trainer.position.step, trainer.total_steps
            self.display.say(f"Finished early, after step {step:,} of {total:,}: {trainer.reason}")

    def show(self, evaluation: Evaluation, *, elapsed: float) -> None:
        """Add a row to the table, also for the evaluation before training."""
        self._show(evaluation.epoch, evaluation.step, evaluation.overall, evaluation.tasks, time=clock_text(elapsed))

    def _show(
        self, epoch: float, step: int, overall: float, tasks: Mapping[str, Mapping[str, float]], *, time: str
    ) -> None:
        best = overall > self.best and (epoch > 0 or self.keeps_start)
        if best:
            self.best = overall
        means = [_mean(values) for values in self.losses.values()]
        self.losses = {}
        self._rows += 1
        self.display.row(
            Row(
                epoch=f"{epoch:.4g}" if epoch % 1 == 0 else f"{epoch:.2f}",
                step=f"{step:,}",
                loss=f"{_mean(means):.3f}" if means else "",
                scores={
                    name: f"{scores[self.metrics.get(name, next(iter(scores)))]:.3f}" for name, scores in tasks.items()
                },
                overall=f"{overall:.4f}",
                best=best,
                time=time,
            )
        )


class Pace:
    """How fast a run is: the recent steps and the last evaluation."""

    def __init__(self) -> None:
        self.steps: deque[float] = deque(maxlen=RECENT)
        self.evaluating = 0.0
        self.clock = 0.0

    def start(self) -> None:
        """Start the clock."""
        self.clock = time.perf_counter()

    def step(self) -> None:
        """Count a step."""
        now = time.perf_counter()
        self.steps.append(now - self.clock)
        self.clock = now

    def evaluation(self, seconds: float) -> None:
        """Count an evaluation."""
        self.evaluating = seconds
        self.clock = time.perf_counter()

    def left(self, trainer: Trainer) -> float:
        """Return the seconds until the end of the run."""
        done = trainer.position.step
        return (trainer.total_steps - done) * _mean(self.steps) + evaluations_after(done, trainer) * self.evaluating


def evaluations_after(step: int, trainer: Trainer) -> int:
    """Return how many evaluations follow a step: one after each epoch, and those within epochs."""
    ends = [end for end in trainer.sampler.ends if end > step]
    every = trainer.evaluate_every
    if every is None:
        return len(ends)
    return len(ends) + trainer.total_steps // every - step // every - sum(end % every == 0 for end in ends)


def _mean(values: Any) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
