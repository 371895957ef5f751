"""Add task: give a trained run one more task; its encoder and all its other tasks stay as they are, bit for bit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from palbert.build import build_inference, evaluate_now
from palbert.build.stored import NO_TEMPLATE, Stored, store_states
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import Template
from palbert.data.training_set import TrainingSet
from palbert.errors import RecipeError, StoppedError
from palbert.inference.evaluator import Inference
from palbert.model.multitask import MultiTaskModel
from palbert.objectives.objectives import Reader, itself
from palbert.recipe.from_file import is_data_file, task_name, values_of_file
from palbert.recipe.growth import grown_recipe
from palbert.recipe.load import read_toml
from palbert.recipe.overrides import apply_override
from palbert.recipe.schema import Recipe
from palbert.recipe.values import plain, with_files
from palbert.registry.trust import trusting
from palbert.runtime.distributed import find_ranks
from palbert.runtime.files import AnyPath
from palbert.runtime.progress import progress_shown
from palbert.runtime.run_folder import Resume, RunFolder
from palbert.training.callbacks import Callback, check_callbacks
from palbert.training.checkpoint import read_weights
from palbert.training.trainer import Evaluation, Scores, Trainer
from palbert.verbs.baselines import Scores as BaselineScores
from palbert.verbs.baselines import read_baselines
from palbert.verbs.derived_run import Source, refuse_overlap
from palbert.verbs.in_memory import Data, StagedRows, staged
from palbert.verbs.origin import Ingredient, Origin
from palbert.verbs.run import Run
from palbert.verbs.train import TrainingJob, run_job

log = logging.getLogger(__name__)


def add_task(
    run: AnyPath,
    tasks: Mapping[str, Any] | AnyPath,
    *,
    out: AnyPath,
    data: Data | None = None,
    checkpoint: str | None = None,
    resume: Resume = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    trust: bool = False,
) -> Run:
    """Give a trained run new tasks, and return the run that has all of them.

    The encoder and all of the run's own tasks stay as they are, bit for bit; new heads and adapters are trained.

    Args:
        run: The run that gets the tasks; it is not changed.
        tasks: A file or dict with `tasks`, and `adapters`, `training`, `optimizer` and `run` if wanted; or a data file.
        out: The folder of the new run.
        data: Rows of the new tasks in place of files, as `palbert.train` takes them.
        checkpoint: The checkpoint of the run to start from; the best unless given.
        resume: Continue what was stopped in `out`; "auto" begins it if there is nothing.
        force: Replace the run in `out`.
        overrides: Settings of `tasks` as `key=value`.
        progress: Show the table of scores and the time left; they are shown unless PALBERT_PROGRESS=off is set.
        callbacks: What observes the training, and may finish it.
        trust: Whether code from outside palbert that the run names may be imported.

    Raises:
        RecipeError: Something that the run's tasks share would change.
        StoppedError: Ctrl-C or SIGTERM; `resume=True` continues.
    """
    check_callbacks(callbacks)
    folder, ranks = RunFolder(Path(out)), find_ranks()
    refuse_overlap(folder, [RunFolder(Path(run))])
    if ranks.is_restarted:  # by the command of the first attempt
        resume, force = "auto", False
    if ranks.is_first:
        folder.check_free(resume=resume, force=force)
    with progress_shown(progress if ranks.is_first else False), staged(data) as rows, trusting(trust):
        source = Source.of(Path(run), checkpoint)
        recipe = _recipe(source, tasks, rows, overrides, place=source.checkpoint if checkpoint else source.folder.path)
        job = GrowthJob(recipe, folder, resume=resume, ranks=ranks, rows=rows, callbacks=callbacks)
        job.source = source.folder
        if not run_job(job, force=force):
            raise StoppedError(folder.path, verb="add-task")
    return Run(folder.path)


def _recipe(
    source: Source, tasks: Mapping[str, Any] | AnyPath, rows: StagedRows, overrides: Sequence[str], *, place: Path
) -> Recipe:
    """Return the recipe of the grown run; `place` is the run, or the checkpoint of it that was asked for."""
    if isinstance(tasks, Mapping):
        values, folder, name = plain(tasks), Path.cwd(), "tasks"
    elif is_data_file(path := Path(tasks)):
        if not path.is_file():
            raise RecipeError(f"{path}: no such file.")
        values, folder, name = {"tasks": values_of_file(path)["tasks"]}, path.parent, str(path)
        log.info("the new task is called '%s'", task_name(path))
    else:
        values, folder, name = read_toml(path), path.parent, str(path)
    for override in overrides:
        apply_override(values, override)
    files = {task: {split: str(file) for split, file in files.items()} for task, files in rows.files.items()}
    values = with_files(values, files)
    return grown_recipe(source.recipe, str(place.resolve()), values, folder=folder, name=name)


class GrowthJob(TrainingJob):
    """The training of new tasks of a run: a recipe whose encoder is the run, and whose phase trains the new tasks."""

    source: RunFolder
    """The run that gets the tasks."""

    @property
    def trained(self) -> Recipe:
        """The recipe of the new tasks alone."""
        return self.recipe.stages[0]

    @cached_property
    def stored(self) -> Stored | None:
        """The states of the rows of all new tasks, if nothing below their heads is trained."""
        if "adapters" in self.trained.training.trains:
            return None
        found = store_states(
            self.model,
            self.trained.tasks,
            self.sets,
            self.dev_of_trained,
            template=self.tokenizer.template,
            machine=self.machine,
        )
        if found:
            log.info("the encoder has read %s texts of %s in %.1f s; epochs use what it gave",
                     f"{found.sequences:,}", ", ".join(self.trained.tasks), found.seconds)  # fmt: skip
        return found

    @cached_property
    def known(self) -> Scores:
        """The scores of the run's own tasks on dev, which stay as they are."""
        inference = build_inference(self.model, tokenizer=self.tokenizer, machine=self.machine, ranks=self.ranks)
        own = {name: rows for name, rows in self.dev.items() if name not in self.trained.tasks}
        return evaluate_now(inference, self.recipe, own).tasks if own else {}

    @property
    def fed_sets(self) -> Mapping[str, TrainingSet[Dataset]]:
        """The training sets of the new tasks, as states where these are stored."""
        return self.stored.sets if self.stored else self.sets

    @property
    def template(self) -> Template:
        """What batches put around texts; nothing around states."""
        return NO_TEMPLATE if self.stored else self.tokenizer.template

    @property
    def reader(self) -> Reader:
        """What reads the batches of a step."""
        return self.stored.reader if self.stored else itself

    def evaluate(self, model: MultiTaskModel, *, epoch: float, step: int) -> Evaluation:
        """Score a model on the new tasks; the run's own tasks keep their scores."""
        dev = self.stored.dev if self.stored else self.dev_of_trained
        inference = Inference(
            self.reader(model),
            template=self.template,
            device=self.machine.device,
            arithmetic=self.machine.arithmetic,
            ranks=self.ranks,
        )
        return evaluate_now(inference, self.recipe, dev, epoch=epoch, step=step, known=self.known)

    def baselines(self) -> BaselineScores:
        """Score what the new tasks have to beat; those of the run's own tasks are in its folder."""
        found = read_baselines(self.source, "dev")
        for baseline, scores in super().baselines().items():
            found[baseline] = {**found.get(baseline, {}), **scores}
        return found

    def describe(self) -> dict[str, Any]:
        """Return the description of the model, with the run that it has grown from."""
        origin = Origin("add-task", [Ingredient.of(self.encoder_folder)], tasks=list(self.trained.tasks))
        return {**super().describe(), "origin": asdict(origin)}

    def report(self) -> None:
        """Check that the run's own weights are the same, bit for bit; report, and say how long epochs took."""
        former, grown = read_weights(self.encoder_folder), read_weights(self.folder.checkpoint())
        changed = [name for name, value in former.items() if not torch.equal(value, grown[name])]
        assert not changed, f"adding a task has changed {changed[:8]}"
        super().report()
        log.info("%d tensors of %s are the same as before", len(former), self.source.path)
        if self.stored:
            log.info("%s", _described(self.stored, self.trainer))


def _described(stored: Stored, trainer: Trainer) -> str:
    """Say what storing states has saved, compared with an encoder that runs in every epoch."""
    epochs, trained = len(trainer.epochs), trainer.position.seconds
    epoch = trained / epochs
    with_encoder = f"at least {epoch + stored.seconds:.2f} s with the encoder"
    return (
        f"the encoder ran once, {stored.seconds:.2f} s; an epoch on what it gave took {epoch:.2f} s, {with_encoder}: "
        f"{(epoch + stored.seconds) / epoch:.1f} times as long"
    )
