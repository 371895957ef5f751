"""Hooks: what watches a run — progress bar, metrics.jsonl, TensorBoard, checkpoints."""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

from torch import Tensor

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import TrainingError
from palbert.metrics import METRICS
from palbert.runtime.files import disk_errors, write_text
from palbert.runtime.progress import Bar, bar
from palbert.runtime.seeding import random_state
from palbert.training.checkpoint import (
    TrainerState,
    link_checkpoint,
    module_tensors,
    optimizer_tensors,
    read_description,
    save_checkpoint,
)
from palbert.training.optimizer import rates
from palbert.training.trainer import Evaluation, Hook, Trainer

log = logging.getLogger(__name__)


class MetricsLog(Hook):
    """Write one JSON object a line to metrics.jsonl, show progress, and stop a run that diverges.

    Losses stay on the device between lines: reading one waits for the GPU.
    """

    def __init__(self, path: Path, *, every: int, writers: list[Any] | None = None) -> None:
        self.path = path
        self.every = every
        self.writers = writers or []
        self.drawn: Counter[str] = Counter()
        self.tokens = 0
        self.clock = 0.0
        self.waited = 0.0
        self._bar: Any = None
        self._line: Bar | None = None

    def on_start(self, trainer: Trainer) -> None:
        """Drop lines that a resumed run will write again, and open the bar."""
        position = trainer.position
        started = trainer.sampler.epoch(position.epoch)[: position.done] if position.done else []
        self.drawn = Counter(task for step in started for task in step)
        if position.step:
            kept = [record for record in read_records(self.path) if self._is_before(record, trainer)]
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in kept))
        self.clock, self.waited = time.perf_counter(), trainer.feed.waited
        self._bar = bar("training", total=trainer.total_steps, completed=position.step)
        self._line = self._bar.__enter__()

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Collect; write a line now and then."""
        for task, loss in losses.items():
            trainer.position.losses.setdefault(task, []).append(loss)
            self.drawn[task] += 1
        for pair, cosine in trainer.gradients.observations().items():
            trainer.position.cosines.setdefault(pair, []).append(cosine)
        self.tokens += tokens
        detail = None
        if self._is_due(trainer.position.step, trainer):
            detail = self._write_losses(trainer)
        if self._line:
            self._line.advance(detail=detail)

    def on_epoch(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Write the epoch's task counts and its scores."""
        epoch = evaluation.epoch
        planned = {task: round(count, 2) for task, count in trainer.sampler.planned(epoch).items()}
        drawn = {task: self.drawn[task] for task in planned}
        self.drawn.clear()
        self.write({"kind": "epoch", "epoch": epoch, "step": evaluation.step, "planned": planned, "drawn": drawn})
        self.write_evaluation(evaluation)
        log.info("epoch %d/%d: %s", epoch, trainer.sampler.epochs, evaluation)
        self.clock = time.perf_counter()  # evaluation does not count as training time

    def on_stop(self, trainer: Trainer) -> None:
        """Write what was collected, and keep it: a resumed run writes the whole line instead."""
        position = trainer.position
        losses, cosines = position.losses, position.cosines
        if losses:
            self._write_losses(trainer)
            position.losses, position.cosines = losses, cosines

    def on_end(self, trainer: Trainer) -> None:
        """Close the bar."""
        if self._bar:
            self._bar.__exit__(None, None, None)
            self._bar = self._line = None

    def write_evaluation(self, evaluation: Evaluation) -> None:
        """Write the scores after an epoch, or before training."""
        self.write(
            {
                "kind": "evaluation",
                "epoch": evaluation.epoch,
                "step": evaluation.step,
                "overall": evaluation.overall,
                "tasks": evaluation.tasks,
            }
        )

    def write(self, record: dict[str, Any]) -> None:
        """Append one line."""
        with disk_errors(self.path), self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        for writer in self.writers:
            writer(record)

    def _is_due(self, step: int, trainer: Trainer) -> bool:
        """Whether a line is written after a step: now and then, and at the end of an epoch."""
        return step % self.every == 0 or step in trainer.sampler.ends

    def _is_before(self, record: dict[str, Any], trainer: Trainer) -> bool:
        """Whether a resumed run will not write this record again."""
        if record["kind"] == "train":
            return record["step"] <= trainer.position.step and self._is_due(record["step"], trainer)
        return bool(record["epoch"] < trainer.position.epoch)

    def _write_losses(self, trainer: Trainer) -> str:
        means = {task: sum(map(float, values)) / len(values) for task, values in trainer.position.losses.items()}
        cosines = {pair: _mean_of_numbers(values) for pair, values in trainer.position.cosines.items()}
        weights = {task: _number(float(weight)) for task, weight in trainer.objective.balance.weights().items()}
        now = time.perf_counter()
        elapsed = max(now - self.clock, 1e-9)
        trainer.position.seconds += now - self.clock
        speed = self.tokens / elapsed
        waited, self.waited = (trainer.feed.waited - self.waited) / elapsed, trainer.feed.waited
        trainer.position.losses, trainer.position.cosines, self.tokens, self.clock = {}, {}, 0, now
        self.write(
            {
                "kind": "train",
                "step": trainer.position.step,
                "epoch": trainer.position.epoch,
                "losses": {task: _number(loss) for task, loss in means.items()},
                **({"cosines": cosines} if cosines else {}),
                **({"weights": weights} if weights else {}),
                "learning_rate": rates(trainer.optimizer),
                "tokens_per_second": round(speed, 1),
                "waited": round(waited, 4),
                "seconds": round(trainer.position.seconds, 3),
            }
        )
        for task, loss in means.items():
            if not math.isfinite(loss):
                raise TrainingError(
                    f"The loss of task '{task}' became {loss} by step {trainer.position.step}.",
                    hint="Lower optimizer.learning_rate, or set a smaller training.clip.",
                )
        shown = "  ".join(f"{task} {loss:.3f}" for task, loss in means.items())
        return f"epoch {trainer.position.epoch}/{trainer.sampler.epochs}  {shown}  {speed:,.0f} tokens/s"


class TensorBoard:
    """Write the same records for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def __call__(self, record: dict[str, Any]) -> None:
        """Add a record's numbers as scalars."""
        step = record["step"]
        for group in ("losses", "cosines", "weights", "learning_rate", "drawn"):
            for name, value in record.get(group, {}).items():
                value = math.nan if value is None else value
                self.writer.add_scalar(f"{group}/{name}", value, step)
        for name in ("tokens_per_second", "waited", "overall"):
            if name in record:
                self.writer.add_scalar(name, record[name], step)
        for task, scores in record.get("tasks", {}).items():
            for metric, value in scores.items():
                self.writer.add_scalar(f"{task}/{metric}", value, step)
        self.writer.flush()


class Checkpoints(Hook):
    """Keep `last`, the best overall and the best of each task.

    A checkpoint's own scores are not among the best that it holds: whoever resumes from it links it anew, in case
    the run was killed before it could.
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
    ) -> None:
        self.folder = folder
        self.tokenizer = tokenizer
        self.description = description
        self.metrics = metrics
        self.every = every
        self.best = dict(best or {})

    def on_start(self, trainer: Trainer) -> None:
        """Link `last` as `best` where it is, if that was left undone."""
        if trainer.position.step:
            self._link_best(read_description(self.folder / "last")["scores"])

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Save `last` now and then."""
        if trainer.position.step % self.every == 0:
            self._save(trainer, {})

    def on_epoch(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Save `last`, and link it as `best` where it is."""
        found = {"epoch": evaluation.epoch, "overall": evaluation.overall, "tasks": evaluation.tasks}
        self._save(trainer, found)
        self._link_best(found)

    def on_stop(self, trainer: Trainer) -> None:
        """Save `last` at the step where the run stopped."""
        self._save(trainer, {})

    def _link_best(self, found: dict[str, Any]) -> None:
        """Link `last` wherever its scores are the highest so far; it has none in the middle of an epoch."""
        if not found:
            return
        scores = {"best": found["overall"]}
        for task, metric in self.metrics.items():
            scores[f"best-{task}"] = METRICS[metric].scaled(found["tasks"][task][metric])
        for name, score in scores.items():
            if score > self.best.get(name, -math.inf):
                link_checkpoint(self.folder / "last", self.folder / name)
                self.best[name] = score

    def _save(self, trainer: Trainer, scores: dict[str, Any]) -> None:
        if not all(bool(parameter.isfinite().all()) for parameter in trainer.parameters):
            raise TrainingError(
                f"The weights are no longer numbers at step {trainer.position.step}; the last checkpoint is kept.",
                hint="Lower optimizer.learning_rate, or set a smaller training.clip.",
            )
        device = trainer.parameters[0].device
        save_checkpoint(
            self.folder / "last",
            trainer.average.model,
            self.tokenizer,
            description={**self.description, "step": trainer.position.step, "scores": scores},
            state=TrainerState(
                position=trainer.position.as_dict(),
                best=self.best,
                optimizer=optimizer_tensors(trainer.optimizer),
                random=random_state(device, trainer.ranks),
                objective=module_tensors(trainer.objective),
                average=trainer.average.state(),
            ),
        )


class Attendance(Hook):
    """Be there when the first process saves a checkpoint: it asks the others for their generators' state."""

    def __init__(self, *, every: int) -> None:
        self.every = every

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Answer now and then."""
        if trainer.position.step % self.every == 0:
            self._answer(trainer)

    def on_epoch(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Answer after each epoch, when the first has evaluated."""
        self._answer(trainer)

    def on_stop(self, trainer: Trainer) -> None:
        """Answer at the step where the run stopped."""
        self._answer(trainer)

    def _answer(self, trainer: Trainer) -> None:
        random_state(trainer.parameters[0].device, trainer.ranks)


def _number(value: float) -> float | None:
    """Return what JSON can hold: nothing in place of infinity and NaN."""
    return value if math.isfinite(value) else None


def _mean_of_numbers(values: list[Any]) -> float | None:
    """Average what is a number: the cosine with a gradient of 0 is none."""
    numbers = [number for number in map(float, values) if math.isfinite(number)]
    return sum(numbers) / len(numbers) if numbers else None


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read metrics.jsonl; lines that a crash cut off are left out."""
    records = []
    if path.is_file():
        for line in path.read_text("utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return records
