"""Trials: one training run of a search, in this process; its log goes to a file, and its failure is a result."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from palbert.errors import PalbertError, first_line
from palbert.recipe.schema import Recipe
from palbert.runtime.run_folder import RunFolder
from palbert.training.callbacks import Callback
from palbert.training.hooks import read_records
from palbert.training.trainer import Evaluation, Trainer
from palbert.verbs.tuning.search import State

Decide = Callable[[int, float], bool]
"""Is told the number of an evaluation, from 1, and its overall score; returns whether the run is to be ended."""
KEPT = ("overall", "formula", "tasks", "metrics", "epoch", "seconds", "rows", "encoder", "device", "parameters")
"""Parts of a run's report.json that are kept."""


@dataclass(frozen=True)
class Job:
    """One run to train."""

    name: str
    """What messages call it."""
    recipe: Recipe
    run: Path
    """The run folder. A run that is there is continued."""
    number: int | None = None
    """The number of the trial; None for runs that are never pruned."""

    @property
    def log(self) -> Path:
        """What the run logs."""
        return self.run.with_suffix(".log")


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    state: State
    report: dict[str, Any] = field(default_factory=dict)
    """The kept parts of its report."""
    reason: str = ""
    """Why it was pruned, or failed."""

    @property
    def result(self) -> dict[str, Any]:
        """All of it but the state, as it is kept."""
        return {**self.report, **({"reason": self.reason} if self.reason else {})}


class Watch(Callback):
    """Hand every evaluation on, and end the run where that is asked for.

    Scores are read from metrics.jsonl: a run that was killed after an evaluation hands it on when it is resumed.
    """

    def __init__(self, metrics: Path, decide: Decide) -> None:
        self.metrics = metrics
        self.decide = decide
        self.reason = ""
        self.told = 0

    def on_start(self, trainer: Trainer) -> None:
        """Hand on what was evaluated before the run was stopped."""
        self._tell(trainer)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Hand the evaluation on."""
        self._tell(trainer)

    def _tell(self, trainer: Trainer) -> None:
        records = [record for record in read_records(self.metrics) if record["kind"] == "evaluation"]
        scores = [record["overall"] for record in records if record["epoch"] > 0]
        is_complete = trainer.position.epoch > trainer.sampler.epochs
        for number, score in enumerate(scores[self.told :], start=self.told + 1):
            self.told = number
            if self.decide(number, score) and number == len(scores) and not is_complete:
                best = max(scores)
                self.reason = f"best score {best:.4f} of {number} evaluations is below the median of the other trials"
                trainer.finish(f"pruned by the search: {self.reason}.")


def run_here(job: Job, decide: Decide) -> Outcome:
    """Train a run, or continue it; return how it ended.

    Raises:
        StoppedError: Ctrl-C. It continues when it is run again.
    """
    from palbert.verbs.train import train

    watch = Watch(RunFolder(job.run).metrics, decide)
    with logged_to(job.log):
        try:
            run = train(job.recipe, out=job.run, resume="auto", progress=False, callbacks=[watch])
            report = {key: run.report[key] for key in KEPT if key in run.report}
            return Outcome("pruned" if watch.reason else "complete", report, watch.reason)
        except Exception as error:
            logging.getLogger(__name__).error("%s failed", job.name, exc_info=error)
            return Outcome("failed", reason=reason_of(error))
        finally:
            gc.collect()  # the memory of a run that failed
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def reason_of(error: Exception) -> str:
    """Return why a run failed, on one line."""
    if isinstance(error, PalbertError):
        return " ".join(error.message.split())
    return f"{type(error).__name__}: {first_line(error)}"


@contextmanager
def logged_to(file: Path) -> Iterator[None]:
    """Let the log go to a file while the block runs: to its end, as a resumed run continues it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger("palbert")
    former = logger.handlers[:], logger.level, logger.propagate
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.handlers[:], logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = former[0], former[2]
        logger.setLevel(former[1])
        handler.close()
