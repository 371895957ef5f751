"""Train: from a recipe to a run folder with checkpoints and a report."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from palbert import __version__
from palbert.build import (
    build_encoder,
    build_inference,
    build_model,
    build_trainer,
    check_lengths,
    evaluate_now,
    keep_parts,
    load_split,
    load_training_sets,
    make_sampler,
    teach,
    teachers_sha256,
)
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import Template
from palbert.data.training_set import TrainingSet
from palbert.errors import StoppedError
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
from palbert.objectives.objectives import Reader, itself
from palbert.recipe.from_file import run_name
from palbert.recipe.schema import Recipe
from palbert.registry.trust import trusting
from palbert.runtime.distributed import find_ranks
from palbert.runtime.files import AnyPath
from palbert.runtime.precision import choose_device
from palbert.runtime.progress import progress_shown
from palbert.runtime.run_folder import Resume, RunFolder
from palbert.runtime.seeding import seed_everything, seed_rank
from palbert.training.callbacks import Callback, check_callbacks
from palbert.training.checkpoint import TrainerState
from palbert.training.limits import Patience
from palbert.training.samplers import Consecutive
from palbert.training.trackers import TRACKERS, check_trackers, open_trackers, scalars
from palbert.training.trainer import Evaluation, Hook, Trainer
from palbert.verbs.auto import complete, reshaped, start_heads
from palbert.verbs.baselines import FrozenEncoder, write_baselines
from palbert.verbs.baselines import Scores as BaselineScores
from palbert.verbs.data_log import log_data
from palbert.verbs.evaluate import report_on
from palbert.verbs.in_memory import AnyRecipe, Data, staged
from palbert.verbs.job import Job
from palbert.verbs.notes import log_notes
from palbert.verbs.pretrain import pretrain_first
from palbert.verbs.run import Run

log = logging.getLogger(__name__)


def train(
    recipe: AnyRecipe,
    *,
    data: Data | None = None,
    out: AnyPath | None = None,
    resume: Resume = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    trust: bool = False,
) -> Run:
    """Train a recipe and report on it; return the run.

    Under torchrun every process calls it, and only the first writes.

    Args:
        recipe: A recipe, its file, the name of a built-in one, its settings as a dict, or a data file: a recipe of
            one task whose settings are inferred from it.
        data: Rows by task, in place of files: `{"tone": rows}`, or `{"tone": {"train": rows, "dev": rows}}`. Rows are
            a list or an iterable of dicts, a table of pandas, polars or pyarrow, or a Dataset of Hugging Face. The run
            folder keeps a copy.
        out: The run folder; runs/<recipe name> unless given.
        resume: Continue the run in that folder; "auto" begins it if there is none.
        force: Replace the run in that folder.
        overrides: Settings as `key=value`.
        progress: Show the table of scores and the time left; they are shown unless PALBERT_PROGRESS=off is set.
        callbacks: What observes the run, and may finish it; only the first process calls them.
        trust: Whether code from outside palbert may be imported that teachers and other runs name, in addition to that
            which the recipe itself names.

    Raises:
        StoppedError: Ctrl-C or SIGTERM; `resume=True` continues from checkpoints/last. It is a KeyboardInterrupt.
    """
    check_callbacks(callbacks)
    name = "run" if isinstance(recipe, Recipe | Mapping) else run_name(recipe)
    folder = RunFolder(Path(out) if out else Path("runs") / name)
    ranks = find_ranks()
    if ranks.is_restarted:  # by the command of the first attempt
        resume, force = "auto", False
    if ranks.is_first:
        folder.check_free(resume=resume, force=force)
    with progress_shown(progress if ranks.is_first else False), staged(data) as rows, trusting(trust):
        loaded = rows.load(recipe, overrides=overrides)
        job = TrainingJob(loaded, folder, resume=resume, ranks=ranks, rows=rows, callbacks=callbacks)
        finished = run_job(job, force=force)
    if finished:
        return Run(folder.path)
    raise StoppedError(folder.path, verb="train")


def run_job(run: TrainingJob, *, force: bool) -> bool:
    """Train and report; return False if Ctrl-C stopped it."""
    ranks = run.ranks
    with ranks.connected(choose_device(run.recipe.run.device)):
        run.prepare()
        with run.locked(force=force), run.tracked():
            finished = run.fit()
            if finished and ranks.is_first:
                run.report()
        ranks.wait()  # the report is there when the others return
    return finished


class TrainingJob(Job):
    """One run over the tasks of a recipe, in one or more phases."""

    model: MultiTaskModel

    def load(self) -> None:
        """Load the data, let the teachers answer, and build the model and the trainer of every phase."""
        recipe = self.recipe
        check_trackers(self._projects)
        if recipe.optimizer.adapter_learning_rate is not None and recipe.adapters is None:
            log.warning("optimizer.adapter_learning_rate has no effect: the recipe has no adapters.")
        check_lengths(recipe.sets, self.tokenizer)
        with self.ranks.first_process_first():
            sets = load_training_sets(self.trained, self.tokenizer)
            self.dev = load_split(recipe, "dev", self.tokenizer)
        log_data(self.trained, sets, self.dev_of_trained, self.tokenizer)
        datasets = [*(each.rows for each in sets.values()), *self.dev.values()]
        files = {file: sha256 for dataset in datasets for file, sha256 in dataset.files.items()}
        self.set_provenance(files, teachers_sha256(recipe))
        with self.ranks.first_process_first():
            self.sets = teach(self.trained, sets, tokenizer=self.tokenizer, machine=self.machine)
        self.recipe = complete(self.recipe, self.sets, self.frozen) if recipe.training.auto else self.recipe
        self.sets = reshaped(self.sets, self.recipe)
        self._build(self.encoder_folder)

    @cached_property
    def frozen(self) -> FrozenEncoder:
        """The encoder that the recipe names, as it is before all training."""
        return FrozenEncoder(
            self.trained,
            load_encoder(self.encoder_folder).to(self.machine.device),
            train=self.sets,
            dev=self.dev_of_trained,
            template=self.tokenizer.template,
            machine=self.machine,
        )

    def _build(self, encoder_folder: Path) -> None:
        """Make the model and its trainers from an encoder."""
        recipe = self.recipe
        seed_everything(recipe.seed)  # after the teachers: loading one draws random numbers
        self.model = build_model(
            recipe.tasks, build_encoder(recipe, encoder_folder), adapters=recipe.adapters, relation=recipe.relation
        ).to(self.machine.device)
        keep_parts(self.model, recipe, self.encoder_folder)
        self.sampler = Consecutive(
            [make_sampler(stage, rows={name: len(self.sets[name]) for name in stage.sets}) for stage in recipe.stages]
        )
        self.phases = self.sampler.spans
        for phase in reversed(range(len(self.phases))):  # a phase that cannot be built is refused now
            self.trainer = self.make_trainer(phase)
        seed_rank(recipe.seed, self.ranks)

    def make_trainer(self, phase: int) -> Trainer:
        """Make the trainer of a phase, without hooks."""
        trainer = build_trainer(
            self.recipe.stages[phase],
            self.model,
            template=self.template,
            machine=self.machine,
            train=self.fed_sets,
            evaluate=self.evaluate,
            reader=self.reader,
            sampler=self.sampler,
            epochs=self.phases[phase],
            ranks=self.ranks,
        )
        self.ranks.broadcast_module(
            trainer.objective
        )  # a term with random weights would differ between ranks in a later phase
        return trainer

    @property
    def trained(self) -> Recipe:
        """The recipe without the tasks that no phase trains, where their training rows are not needed."""
        return self.recipe

    @property
    def dev_of_trained(self) -> dict[str, Dataset]:
        """The dev rows of these tasks."""
        return {name: rows for name, rows in self.dev.items() if name in self.trained.tasks}

    @property
    def fed_sets(self) -> Mapping[str, TrainingSet[Dataset]]:
        """The training sets as batches are made of them."""
        return self.sets

    @property
    def template(self) -> Template:
        """What batches put around texts."""
        return self.tokenizer.template

    @property
    def reader(self) -> Reader:
        """What reads the batches of a step."""
        return itself

    def evaluate(self, model: MultiTaskModel, *, epoch: float, step: int) -> Evaluation:
        """Score a model on all tasks; the processes share the rows, and all get the same scores."""
        inference = build_inference(model, tokenizer=self.tokenizer, machine=self.machine, ranks=self.ranks)
        return evaluate_now(inference, self.recipe, self.dev, epoch=epoch, step=step)

    def baselines(self) -> BaselineScores:
        """Score what the trained model has to beat, on dev."""
        return self.frozen.scores()

    @property
    def _projects(self) -> dict[str, str]:
        """The project of each tracker, empty for those that the recipe does not ask for."""
        return {name: getattr(self.recipe.run, name) for name in TRACKERS}

    def report(self) -> None:
        """Score the best checkpoint, write the report, send its scores to the trackers and log its notes."""
        report = report_on(self.folder, self.folder.checkpoint())
        for tracker in self.trackers.values():
            tracker.report(dict(scalars(report.summary)), report.page)
        log_notes(report.summary["notes"])

    @contextmanager
    def tracked(self) -> Iterator[None]:
        """Close the trackers after the block; a run that did not reach its end may be resumed there, too."""
        finished = False
        try:
            yield
            finished = self.trainer.finishing or self.trainer.position.epoch >= self.phases[-1].stop
        finally:
            for tracker in self.trackers.values():
                tracker.close(complete=finished)

    def open_folder(self) -> TrainerState | None:
        """Open the folder; if the recipe asks for it, pretrain the encoder first and build the model on the result."""
        state = super().open_folder()
        if self.ranks.is_first:
            config = self.recipe.model_dump(mode="json", exclude_none=True)
            self.trackers = open_trackers(self._projects, self.folder.path, config=config, resume=self.has_checkpoint)
        with self.ranks.first_process_first():
            if self.ranks.is_first and not self.folder.baselines.is_file():
                write_baselines(self.folder, self.baselines())
        if self.recipe.pretraining:
            encoder_folder = pretrain_first(self.recipe, self.folder, self.ranks)
            self._build(encoder_folder)  # when resuming too: mixout falls back to the pretrained weights
        if state is None and any(task.head_start != "random" for task in self.recipe.tasks.values()):
            with self.ranks.first_process_first():
                if self.ranks.is_first:
                    start_heads(self.model, self.recipe, self.frozen)
            self.ranks.broadcast_module(self.model.heads)
        self.__dict__.pop("frozen", None)  # a second encoder, which training does not need
        return state

    def batch_sizes(self, phase: int) -> dict[str, int]:
        """Return the rows that a step of a phase draws from each set."""
        stage = self.recipe.stages[phase]
        return {name: stage.batch_size(spec) for name, spec in stage.sets.items()}

    @property
    def keeps_start(self) -> bool:
        """Whether a head starts as a linear probe, so that the model is useful before it is trained."""
        return any(task.head_start == "probe" for task in self.recipe.tasks.values())

    @property
    def main_metrics(self) -> dict[str, str]:
        """The metric of each task by which its best checkpoint is chosen."""
        return {name: task.metric for name, task in self.recipe.tasks.items()}

    @property
    def time_limit(self) -> float:
        """Seconds after which the run finishes; infinity without a limit."""
        return self.recipe.training.time_limit or math.inf

    def further_hooks(self) -> list[Hook]:
        """Return what finishes a run that no longer gets better."""
        patience = self.recipe.training.patience
        return [Patience(patience, metrics=self.folder.metrics)] if patience else []

    def describe(self) -> dict[str, Any]:
        """Return the description of the model in a checkpoint: encoder, adapters, relational layer and tasks."""
        recipe, files = self.recipe, {"train", "dev", "test", "extra", "teachers", "drop_overlap"}
        files |= {"held_out", "split", "train_on_dev"}
        return {
            "palbert": __version__,
            "encoder": asdict(self.model.encoder.config),
            "adapters": recipe.adapters.model_dump(mode="json") if recipe.adapters else None,
            "relation": recipe.relation.model_dump(mode="json") if recipe.relation else None,
            "tasks": {name: task.model_dump(mode="json", exclude=files) for name, task in recipe.tasks.items()},
        }
