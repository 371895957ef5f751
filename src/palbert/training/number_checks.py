"""CheckNumbers: the hook that finds losses and gradients that are not finite, and loss spikes, with their rows."""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from palbert.errors import TrainingError
from palbert.runtime.files import disk_errors, write_text
from palbert.runtime.run_folder import RunFolder
from palbert.training.hooks import read_records
from palbert.training.optimizer import rates_at
from palbert.training.spikes import add_loss, find_spike
from palbert.training.trainer import Evaluation, Hook, Trainer

log = logging.getLogger(__name__)

DELAY = 4
"""Steps after which the host reads the numbers of a step on a GPU, which has computed them by then."""
GRADIENT = "gradient norm"
MOST_LOGGED = 3
"""Spikes of a run that are logged; all of them are in the file."""
HINT = (
    "Look at these rows. Lower optimizer.learning_rate, or set a smaller training.clip, if they are as they should be."
)


@dataclass(frozen=True)
class Step:
    """The numbers of one step, on their way to the host."""

    facts: dict[str, Any]
    """Step and epoch."""
    starts: dict[str, int]
    """Rows that were drawn from each of the step's sets before it."""
    values: Tensor
    """The loss of each set, then the norm of the gradient."""
    copied: Any
    """The CUDA event after which the values are on the host; None elsewhere."""


class CheckNumbers(Hook):
    """End a run, or count skipped steps, when a loss or the gradient is NaN or infinite; log loss spikes.

    Losses and gradients are those of all processes together, and every process reads them after the same number of
    steps, so that all end at the same step. The rows of a step are a function of the position: none are kept.

    Args:
        folder: Where non-finite.jsonl and spikes.jsonl are written; None in processes that write nothing.
        seed: The seed of the run.
        save_every: Steps between checkpoints: a checkpoint is written only after all steps so far were checked.
    """

    def __init__(self, folder: RunFolder | None, *, seed: int, save_every: int) -> None:
        self.folder = folder
        self.seed = seed
        self.save_every = save_every
        self.pending: deque[Step] = deque()
        self.in_a_row = 0
        self.found = 0
        self.spikes = 0

    def on_start(self, trainer: Trainer) -> None:
        """Remove lines that a resumed run will write again; a new phase has other losses to compare with."""
        self.pending.clear()
        for path in (self.folder.non_finite, self.folder.spikes) if self.folder else ():
            if path.is_file():
                kept = [record for record in read_records(path) if record["step"] <= trainer.position.step]
                write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept))
        if trainer.position.step == trainer.steps.start:
            trainer.position.recent.clear()
            trainer.position.highest.clear()

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Check an earlier step; before a checkpoint or an evaluation, all steps so far."""
        self.pending.append(self._start_copy(trainer, losses))
        step, every = trainer.position.step, trainer.evaluate_every
        is_saved = step % self.save_every == 0 or step in trainer.sampler.ends or bool(every and step % every == 0)
        at_once = is_saved or trainer.reason or trainer.feed.device.type == "cpu"
        self._check(trainer, waiting=0 if at_once else DELAY)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Check all steps, before their checkpoint is written."""
        self._check(trainer)

    def on_stop(self, trainer: Trainer) -> None:
        """Check all steps, before their checkpoint is written."""
        self._check(trainer)

    def on_end(self, trainer: Trainer) -> None:
        """Log how many steps were skipped, and how many spikes there were."""
        if self.found and self.folder and trainer.non_finite.most_in_a_row > 1:
            path = self.folder.non_finite
            log.warning("%d steps were skipped, whose losses or gradients are not finite: %s", self.found, path)
        if self.spikes > MOST_LOGGED and self.folder:
            log.warning("%d spikes of losses so far: %s", self.spikes, self.folder.spikes)

    def _start_copy(self, trainer: Trainer, losses: dict[str, Tensor]) -> Step:
        """Start to copy the numbers of the last step to the host, without waiting."""
        norm, position = trainer.non_finite.norm, trainer.position
        assert norm is not None, "a step has been done"
        values = torch.stack([*(loss.to(norm) for loss in losses.values()), norm])
        copied = None
        if values.device.type == "cuda":
            values = values.to("cpu", non_blocking=True)  # pinned
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record()
        starts = {name: position.draws[name] - trainer.feed.sets[name].batch_size for name in losses}
        facts = {"step": position.step, "epoch": position.epoch}
        return Step(facts, starts, values, copied)

    def _check(self, trainer: Trainer, *, waiting: int = 0) -> None:
        """Check all steps but the last few."""
        while len(self.pending) > waiting:
            step = self.pending.popleft()
            if step.copied is not None:
                step.copied.synchronize()
            numbers = dict(zip([*step.starts, GRADIENT], step.values.tolist(), strict=True))
            wrong = [name for name, number in numbers.items() if not math.isfinite(number)]
            self.in_a_row = self.in_a_row + 1 if wrong else 0
            if wrong:
                self._report(trainer, step, numbers, wrong[0])
            else:
                self._find_spikes(trainer, step, numbers)

    def _report(self, trainer: Trainer, step: Step, numbers: dict[str, float], first: str) -> None:
        """Write the step and its rows; raise TrainingError if there were too many such steps in a row."""
        self.found += 1
        if self.folder:
            self._write(self.folder.non_finite, trainer, step, numbers)
        what = "The gradient's norm" if first == GRADIENT else f"The loss of '{first}'"
        message = f"{what} became {numbers[first]} at step {step.facts['step']}"
        place = (
            f"its rows are listed in {self.folder.non_finite}" if self.folder else "the first process lists its rows"
        )
        most = trainer.non_finite.most_in_a_row
        if self.in_a_row >= most:
            skips = f", the last of {most} skipped steps in a row" if most > 1 else ""
            raise TrainingError(f"{message}{skips}; {place}.", hint=HINT)
        if self.found == 1 and self.folder:
            log.warning("%s; the step is skipped, and %s.", message, place)

    def _find_spikes(self, trainer: Trainer, step: Step, numbers: dict[str, float]) -> None:
        """Compare each loss with the usual ones of its set; write and log those that are far above."""
        position, usual = trainer.position, {}
        for name in step.starts:
            loss, recent = numbers[name], position.recent.setdefault(name, [])
            spike = find_spike(loss, recent=recent, highest=position.highest.get(name, loss))
            position.highest[name] = add_loss(loss, recent, position.highest.get(name))
            if spike is not None:
                usual[name] = spike
        if usual and self.folder:
            self._write(self.folder.spikes, trainer, step, numbers, usual=usual)
            for name, middle in usual.items():
                self.spikes += 1
                if self.spikes <= MOST_LOGGED:
                    log.warning(
                        "The loss of '%s' is %.3g at step %d, where %.3g is usual; the step's rows are listed in %s.",
                        name, numbers[name], step.facts["step"], middle, self.folder.spikes,
                    )  # fmt: skip

    def _write(
        self, path: Path, trainer: Trainer, step: Step, numbers: dict[str, float], usual: dict[str, float] | None = None
    ) -> None:
        """Append a step with its rows to a file."""
        assert self.folder is not None, "the first process writes"
        shown = {name: number if math.isfinite(number) else str(number) for name, number in numbers.items()}
        norm = shown.pop(GRADIENT)
        record = {**step.facts, "seed": self.seed, "losses": shown, "gradient_norm": norm}
        record |= {"usual": usual} if usual else {}
        # Computed from the step: it may be a few steps ago, and reading the present rates would wait for a GPU.
        factor = trainer.schedule(step.facts["step"] - 1 - trainer.steps.start, len(trainer.steps))
        record |= {"learning_rate": rates_at(trainer.optimizer, factor), "rows": rows_of(trainer, step.starts)}
        with disk_errors(path), path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def rows_of(trainer: Trainer, starts: dict[str, int]) -> dict[str, Any]:
    """Return the rows of a step by set: files, ids and numbers, from 0, among the rows that were read."""
    found = {}
    for name, start in starts.items():
        rows, numbers = trainer.feed.sets[name].rows, trainer.feed.streams[name].batch(start).tolist()
        ids = getattr(rows, "ids", None)  # a corpus has none
        named = {} if ids is None else {"ids": [ids[number] for number in numbers]}
        found[name] = {"files": list(getattr(rows, "files", ())), **named, "numbers": numbers}
    return found
