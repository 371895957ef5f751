"""Job: what training and further pretraining share — loading, resuming, hooks, and training until the end or a stop."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from palbert.build import Machine, check_names
from palbert.build.tokenizer import load_tokenizer
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RunFolderError
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import dump_recipe
from palbert.recipe.paths import data_files
from palbert.recipe.schema import Recipe
from palbert.runtime.determinism import choose_workspace, deterministic
from palbert.runtime.display import make_display
from palbert.runtime.distributed import Ranks
from palbert.runtime.files import write_text
from palbert.runtime.run_folder import Resume, RunFolder
from palbert.runtime.seeding import ranks_in, restore_random_state
from palbert.training.callbacks import Callback, Callbacks
from palbert.training.checkpoint import TrainerState, load_weights, read_last, read_state, restore_trainer
from palbert.training.checkpoint_hooks import Checkpoints, SendRandomState
from palbert.training.hooks import SHOWN, MetricsLog, TensorBoard
from palbert.training.interrupt import stop_on_interrupt
from palbert.training.limits import TimeLimit
from palbert.training.number_checks import CheckNumbers
from palbert.training.positions import check_trainer
from palbert.training.progress_hooks import ShowProgress
from palbert.training.trackers import Tracker
from palbert.training.trainer import Hook, Position, Trainer
from palbert.verbs.in_memory import StagedRows
from palbert.verbs.provenance import (
    compare_provenance,
    provenance_of,
    refuse_another_recipe,
    refuse_own_encoder,
    warn_of_other_threads,
)

log = logging.getLogger(__name__)

Prepared = TypeVar("Prepared", bound="Job")


class Job(ABC):
    """One run: `prepare` loads and checks everything, then `fit` writes to the run folder and trains.

    Args:
        recipe: What to train; `prepare` adds its provenance.
        folder: The run folder; it must be free, or hold the run to resume.
        resume: Continue the run in the folder; "auto" if there is one.
        ranks: The processes that train together.
        rows: Rows of the recipe that were given in memory; the run folder keeps them.
        callbacks: What observes the run, and may finish it.
    """

    machine: Machine
    encoder_folder: Path
    """The pretrained encoder that the recipe names."""
    tokenizer: TextTokenizer
    model: nn.Module
    phases: Sequence[range]
    """The epochs of each phase."""
    trainer: Trainer
    """The trainer of the current phase."""

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        *,
        resume: Resume = False,
        ranks: Ranks | None = None,
        rows: StagedRows | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.resume = resume
        self.ranks = ranks or Ranks()
        self.rows = rows or StagedRows()
        self.callbacks = callbacks
        self.has_checkpoint = False  # to resume from
        self.trackers: dict[str, Tracker] = {}

    def prepare(self: Prepared) -> Prepared:
        """Load and check everything that the run needs, and build model and trainer; write nothing. Return the run."""
        check_names(self.recipe, self.ranks)
        self.machine = Machine.for_recipe(self.recipe)
        if self.recipe.run.deterministic:
            choose_workspace(self.machine.device)
        with self.ranks.first_process_first():  # the other ranks find in the caches what the first has loaded
            self.encoder_folder = resolve_encoder(self.recipe.encoder.name)
            has_checkpoint = bool(self.resume) and self.folder.has_begun
        [self.has_checkpoint] = self.ranks.decide(has_checkpoint)  # or some would begin, where another continues
        refuse_own_encoder(self.folder, self.encoder_folder)
        self.tokenizer = load_tokenizer(self.encoder_folder)
        self.load()
        return self

    @contextmanager
    def locked(self, *, force: bool) -> Iterator[None]:
        """Hold the lock of the run folder, in the first process; what was checked before the lock is checked again.

        Args:
            force: Replace the run in the folder.
        """
        with self.folder.locked() if self.ranks.is_first else nullcontext():
            if self.ranks.is_first:
                self.folder.check_free(resume=self.resume, force=force)
            if self.ranks.is_first and self.has_checkpoint != (bool(self.resume) and self.folder.has_begun):
                raise RunFolderError(
                    f"{self.folder.path}: another process has trained here since this one was started.",
                    hint="Start it again with --resume to continue from there.",
                )
            yield

    @abstractmethod
    def load(self) -> None:
        """Load and check data and model, and make the first trainer; the encoder's folder and tokenizer are known."""

    @abstractmethod
    def make_trainer(self, phase: int) -> Trainer:
        """Make the trainer of a phase, without hooks."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the description of the model in a checkpoint, which is enough to rebuild it."""

    def batch_sizes(self, phase: int) -> dict[str, int]:
        """Return the rows that a step of a phase draws from each set."""
        return {name: each.batch_size for name, each in self.trainer.feed.sets.items()}

    @property
    def main_metrics(self) -> dict[str, str]:
        """The metric of each task by which its best checkpoint is chosen."""
        return {}

    @property
    def time_limit(self) -> float:
        """Seconds after which the run finishes."""
        return math.inf

    @property
    def keeps_start(self) -> bool:
        """Whether the model before training is kept as the best until a better one is found."""
        return False

    def phase_name(self, phase: int) -> str:
        """Return the name of a phase, empty if it has none."""
        return self.recipe.phases[phase].name if self.recipe.phases else ""

    def fit(self) -> bool:
        """Train to the end, or until the run finishes early; return False if Ctrl-C stopped it before."""
        state = self.open_folder()
        if state:
            self._restore(state)
        hooks = self.make_hooks(state.best if state else {})
        while True:
            self.trainer.hooks = hooks
            asked = self.recipe.run.deterministic
            with stop_on_interrupt(self.trainer), deterministic(self.machine.device, asked=asked):
                finished = self.trainer.fit()
            if summary := self.trainer.execution.summary():
                log.info("%s", summary)
            if not finished or self.trainer.finishing or self.trainer.position.epoch >= self.phases[-1].stop:
                return finished
            self._enter_next_phase()

    def make_hooks(self, best: dict[str, float]) -> list[Hook]:
        """Return what logs, saves, shows and ends the run; a new run is scored before training."""
        training = self.recipe.training
        keeps_start = self.keeps_start and not self.has_checkpoint
        before = None if self.has_checkpoint else self.trainer.timed_evaluation(self.model, epoch=0, step=0)
        if not self.ranks.is_first:
            sender = SendRandomState(every=training.save_every)
            if keeps_start:
                sender.save(self.trainer, None)
            return [self._number_checks(None), sender]
        shown = ShowProgress(
            make_display(),
            metrics=self.main_metrics,
            path=self.folder.metrics,
            limit=self.time_limit,
            keeps_start=self.keeps_start,
        )
        writers = [*self._tensorboard(), *self.trackers.values(), shown]
        metrics = MetricsLog(self.folder.metrics, every=training.log_every, writers=writers)
        checkpoints = Checkpoints(
            self.folder.checkpoints,
            self.tokenizer,
            description=self.describe(),
            metrics=self.main_metrics,
            every=training.save_every,
            best=best,
            logs=self.folder.logs,
        )
        if before is not None:
            metrics.write_evaluation(before)
            log.info("before training: %s", before, extra=SHOWN)
            shown.show(before, elapsed=before.seconds)
            self.trainer.position.elapsed = before.seconds
            if keeps_start:
                checkpoints.save(self.trainer, before)
        # The time is counted before it is saved, and scores are written before anybody decides by them.
        checks = self._number_checks(self.folder)
        hooks = [TimeLimit(self.time_limit), metrics, checks, checkpoints, shown]
        return [*hooks, *self.further_hooks(), Callbacks(self.callbacks)]

    def _number_checks(self, folder: RunFolder | None) -> CheckNumbers:
        return CheckNumbers(folder, seed=self.recipe.seed, save_every=self.recipe.training.save_every)

    def further_hooks(self) -> list[Hook]:
        """Return hooks in addition to those of all jobs, for the first process."""
        return []

    def set_provenance(self, files: Mapping[str, str], teachers: Mapping[str, str] | None = None) -> None:
        """Record in the recipe what the run is made from; warn if an earlier run of it was made from something else."""
        provenance = provenance_of(self.encoder_folder, files, teachers, device=self.machine.device)
        compare_provenance(self.recipe.provenance, provenance)
        self.recipe = self.recipe.model_copy(update={"provenance": provenance})

    def open_folder(self) -> TrainerState | None:
        """Write the recipe; return what checkpoints/last holds, or clear the folder for a new run and return None."""
        if self.resume and self.folder.recipe.is_file():  # absent if the run was killed before it wrote anything
            refuse_another_recipe(self.folder.recipe, self.recipe)
            warn_of_other_threads(self.folder.recipe, self.recipe)
        self.recipe = self.rows.moved(self.recipe, self.folder.rows)
        if self.ranks.is_first:
            self.folder.claim()
            if not self.has_checkpoint:
                self.folder.clear(keep_pretrained=bool(self.resume), keep_rows=data_files(self.recipe))
            # When resuming, too: its files may have moved. The rows come second, so that a run is found in any case.
            write_text(self.folder.recipe, dump_recipe(self.recipe, rows=self.folder.rows))
            self.rows.move(self.folder.rows)
        return self._read_state() if self.has_checkpoint else None

    def _read_state(self) -> TrainerState:
        """Read checkpoints/last, or the one before if it is damaged; remove what a killed run left half-written."""
        with self.ranks.first_process_first():  # the first may have to move folders back
            state = read_last(self.folder, self._check_state) if self.ranks.is_first else read_state(self.folder.last)
            self.folder.sweep()
        return state

    def _check_state(self, path: Path, state: TrainerState) -> None:
        """Raise CheckpointError for a state that this run never has."""
        check_trainer(
            path,
            {"position": state.position, "best": state.best},
            sampler=self.trainer.sampler,
            batch_sizes=lambda epoch: self.batch_sizes(self._phase_of(epoch)),
            best=["best", *(f"best-{task}" for task in self.main_metrics)],
        )

    def _restore(self, state: TrainerState) -> None:
        """Restore weights, optimizer, generators and position."""
        last, position = self.folder.last, Position(**state.position)
        load_weights(last, self.model)
        # A new phase draws its start from them.
        restore_random_state(last, state.random, self.machine.device, self.ranks)
        if phase := self._phase_of(position.epoch):
            self._enter(phase)
        if position.done or position.epoch > self.trainer.epochs.start:  # not at the start of a phase
            restore_trainer(last, self.trainer, state)
            restore_random_state(last, state.random, self.machine.device, self.ranks)
        self.trainer.position = position
        if (former := ranks_in(state.random)) != self.ranks.size:
            log.warning(
                "the run had %d processes and has %d now: it continues with the same batches and schedule, but random "
                "numbers such as dropout differ, since the generators of new processes are derived again",
                former, self.ranks.size,
            )  # fmt: skip
        log.info("resuming at step %d of %d", position.step, self.trainer.total_steps)

    def _enter(self, phase: int) -> None:
        self.trainer = self.make_trainer(phase)
        name = self.phase_name(phase)
        log.info("phase %d/%d%s", phase + 1, len(self.phases), f": {name}" if name else "")

    def _enter_next_phase(self) -> None:
        """Continue with the trainer of the next phase where the last one stopped."""
        former, position = self.trainer, self.trainer.position
        former.average.finish()
        self._enter(self._phase_of(position.epoch))
        self.trainer.position, self.trainer.stopping = position, former.stopping

    def _phase_of(self, epoch: int) -> int:
        """Return the number of the phase that an epoch belongs to; after the end, that of the last phase."""
        found = (number for number, epochs in enumerate(self.phases) if epoch in epochs)
        return next(found, len(self.phases) - 1)

    def _tensorboard(self) -> list[TensorBoard]:
        """Return what writes TensorBoard files, if the recipe asks for it and tensorboard is installed."""
        if not self.recipe.run.tensorboard:
            return []
        try:
            return [TensorBoard(self.folder.tensorboard)]
        except ImportError:
            log.info("no TensorBoard files: tensorboard is not installed (pip install 'palbert[tensorboard]')")
            return []
