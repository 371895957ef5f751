"""Hooks that report: metrics.jsonl and TensorBoard."""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from palbert.runtime.files import disk_errors, write_text
from palbert.runtime.json_objects import parse_json
from palbert.training.optimizer import rates
from palbert.training.trackers import scalars
from palbert.training.trainer import Evaluation, Hook, Trainer

log = logging.getLogger(__name__)

SHOWN = {"shown": True}
"""Marks lines of the log that repeat what ShowProgress shows."""


class MetricsLog(Hook):
    """Write metrics.jsonl, one JSON object per line.

    Losses stay on the device between lines: reading one waits for the GPU.
    """

    def __init__(self, path: Path, *, every: int, writers: list[Any] | None = None) -> None:
        self.path = path
        self.every = every
        self.writers = writers or []
        self.drawn: Counter[str] = Counter()
        self.tokens = 0
        self.clock = 0.0  # up to where the time is counted
        self.elapsed = 0.0  # training time since the last line
        self.waited = 0.0

    def on_start(self, trainer: Trainer) -> None:
        """Remove lines that a resumed run will write again."""
        position = trainer.position
        started = trainer.sampler.epoch(position.epoch)[: position.done] if position.done else []
        self.drawn = Counter(name for step in started for name in step)
        if self.path.is_file():
            kept = [record for record in read_records(self.path) if self._is_before(record, trainer)]
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in kept))
        self.clock, self.waited = time.perf_counter(), trainer.feed.waited

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Collect losses; write a line every few steps."""
        for name, loss in losses.items():
            trainer.position.losses.setdefault(name, []).append(loss)
            self.drawn[name] += 1
        for pair, cosine in trainer.gradients.observations().items():
            trainer.position.cosines.setdefault(pair, []).append(cosine)
        self.tokens += tokens
        if self._is_due(trainer.position.step, trainer):
            self._write_losses(trainer)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Write the scores; after an epoch, also how often each set was drawn in it."""
        if evaluation.ends_epoch:
            self._write_epoch(int(evaluation.epoch), trainer)
        self.write_evaluation(evaluation)
        log.info("epoch %.4g/%d: %s", evaluation.epoch, trainer.sampler.epochs, evaluation, extra=SHOWN)
        self.clock += evaluation.seconds  # evaluation does not count as training time
        self._count_time(trainer)

    def on_stop(self, trainer: Trainer) -> None:
        """Write a line of what was collected so far, and keep it: a resumed run replaces the line by a complete one."""
        position = trainer.position
        losses, cosines = position.losses, position.cosines
        if losses:
            self._write_losses(trainer)
            position.losses, position.cosines = losses, cosines

    def on_end(self, trainer: Trainer) -> None:
        """Write why a run has finished early, after a line of what was collected since the last one."""
        if trainer.finishing:
            self.on_stop(trainer)
            position = trainer.position
            self.write({"kind": "end", "epoch": position.epoch, "step": position.step, "reason": trainer.reason})
            log.info(
                "finished early, after step %d of %d: %s",
                position.step,
                trainer.total_steps,
                trainer.reason,
                extra=SHOWN,
            )

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
        """Whether a line is written after a step: every few steps, and at the end of an epoch."""
        return step % self.every == 0 or step in trainer.sampler.ends

    def _is_before(self, record: dict[str, Any], trainer: Trainer) -> bool:
        """Whether a resumed run will not write this record again."""
        if record["kind"] == "train":
            return record["step"] <= trainer.position.step and self._is_due(record["step"], trainer)
        if record["kind"] == "evaluation" and record["epoch"] % 1:
            return bool(record["step"] <= trainer.position.evaluated)
        return bool(record["kind"] != "end" and record["epoch"] < trainer.position.epoch)

    def _count_time(self, trainer: Trainer) -> None:
        now = time.perf_counter()
        trainer.position.seconds += now - self.clock
        self.elapsed += now - self.clock
        self.clock = now

    def _write_epoch(self, epoch: int, trainer: Trainer) -> None:
        planned = {name: round(count, 2) for name, count in trainer.sampler.planned(epoch).items()}
        drawn = {name: self.drawn[name] for name in planned}
        self.drawn.clear()
        step = trainer.position.step
        self.write({"kind": "epoch", "epoch": epoch, "step": step, "planned": planned, "drawn": drawn})

    def _write_losses(self, trainer: Trainer) -> None:
        means = {name: _mean_of_numbers(values) for name, values in trainer.position.losses.items()}
        cosines = {pair: _mean_of_numbers(values) for pair, values in trainer.position.cosines.items()}
        weights = {name: _number(float(weight)) for name, weight in trainer.objective.balance.weights().items()}
        self._count_time(trainer)
        elapsed = max(self.elapsed, 1e-9)
        speed = self.tokens / elapsed
        waited, self.waited = (trainer.feed.waited - self.waited) / elapsed, trainer.feed.waited
        trainer.position.losses, trainer.position.cosines, self.tokens, self.elapsed = {}, {}, 0, 0.0
        self.write(
            {
                "kind": "train",
                "step": trainer.position.step,
                "epoch": trainer.position.epoch,
                "losses": means,
                **({"cosines": cosines} if cosines else {}),
                **({"weights": weights} if weights else {}),
                "learning_rate": rates(trainer.optimizer),
                "tokens_per_second": round(speed, 1),
                "waited": round(waited, 4),
                "seconds": round(trainer.position.seconds, 3),
            }
        )


class TensorBoard:
    """Write the same records for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def __call__(self, record: dict[str, Any]) -> None:
        """Add a record's numbers as scalars."""
        for name, value in scalars(record):
            self.writer.add_scalar(name, value, record["step"])
        self.writer.flush()


def _number(value: float) -> float | None:
    """Return None in place of infinity and NaN, which JSON does not have."""
    return value if math.isfinite(value) else None


def _mean_of_numbers(values: list[Any]) -> float | None:
    """Average the finite values: a skipped step may have others, and the cosine with a gradient of 0 is NaN."""
    numbers = [number for number in map(float, values) if math.isfinite(number)]
    return sum(numbers) / len(numbers) if numbers else None


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a log of one JSON object per line; skip lines that a crash left incomplete, even within a character."""
    records = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        with suppress(ValueError):
            records.append(parse_json(line.decode("utf-8")))
    return [record for record in records if isinstance(record, dict)]
