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
from palbert.errors import RecipeError, RunFolderError, StoppedError
from palbert.inference.evaluator import Inference
from palbert.model.multitask import MultiTaskModel
from palbert.objectives.objectives import Reader, itself
from palbert.recipe.from_file import is_data_file, task_name, values_of_file
from palbert.recipe.growth import grown_recipe
from palbert.recipe.load import load_run_recipe, read_toml
from palbert.recipe.overrides import apply_override
from palbert.recipe.schema import Recipe
from palbert.recipe.values import plain, with_files
from palbert.registry.trust import trusting
from palbert.runtime.distributed import find_ranks
from palbert.runtime.files import AnyPath
from palbert.runtime.precision import choose_device
from palbert.runtime.progress import progress_shown
from palbert.runtime.run_folder import Resume, RunFolder
from palbert.training.callbacks import Callback, check_callbacks
from palbert.training.checkpoint import read_weights
from palbert.training.trainer import Evaluation, Scores, Trainer
from palbert.verbs.baselines import Scores as BaselineScores
from palbert.verbs.baselines import read_baselines
from palbert.verbs.in_memory import Data, staged
from palbert.verbs.origin import Ingredient, Origin
from palbert.verbs.run import Run
from palbert.verbs.train import TrainingJob

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

    The encoder and everything of the run's own tasks stay as they are, and so do their predictions, bit for bit. Where
    the new tasks have heads alone, the encoder reads their rows once; otherwise their adapters are trained as well.

    Args:
        run: The run that gets the tasks; it is not changed.
        tasks: The new tasks: a file with `[tasks.NAME]` and, if wanted, `[adapters]`, `[training]`, `[optimizer]` and
            `[run]`, as in a recipe; the same as a dict; or a data file, for one task that is named after it.
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
        RecipeError: Something that the run's tasks share would have to change.
        StoppedError: Ctrl-C or SIGTERM; `resume=True` continues. It is a KeyboardInterrupt.
    """
    check_callbacks(callbacks)
    folder, ranks = RunFolder(Path(out)), find_ranks()
    if ranks.is_restarted:  # by the command of the first attempt
        resume, force = "auto", False
    if ranks.is_first:
        folder.check_free(resume=resume, force=force)
    shown = progress_shown(progress if ranks.is_first else False)
    with shown, staged(data) as rows, trusting(trust):
        source = RunFolder(Path(run))
        values, start, name = _read(tasks, overrides)
        values = with_files(values, {task: {place: str(path) for place, path in places.items()}
                                     for task, places in rows.files.items()})  # fmt: skip
        recipe = grown_recipe(_recipe_of(source), _encoder(source, checkpoint), values, folder=start, name=name)
        job = GrowthJob(recipe, folder, resume=resume, ranks=ranks, rows=rows, callbacks=callbacks)
        job.source = source
        with ranks.connected(choose_device(recipe.run.device)):
            job.prepare()
            with job.locked(force=force), job.tracked():
                finished = job.fit()
                if finished and ranks.is_first:
                    job.report()
            ranks.wait()  # the report is there when the others return
    if finished:
        return Run(folder.path)
    raise StoppedError(folder.path, verb="add-task")


def _read(tasks: Mapping[str, Any] | AnyPath, overrides: Sequence[str]) -> tuple[dict[str, Any], Path, str]:
    """Return the values of new tasks, where their paths start, and what errors call them."""
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
    return values, folder, name


def _recipe_of(source: RunFolder) -> Recipe:
    """Return the recipe of the run that gets the tasks."""
    if not source.recipe.is_file():
        raise RunFolderError(f"{source.path}: there is no run here.", hint="Give the folder of a trained run.")
    return load_run_recipe(source.recipe)


def _encoder(source: RunFolder, checkpoint: str | None) -> str:
    """Return the run, or one of its checkpoints, as `encoder.name` takes it."""
    found = source.checkpoint(checkpoint)
    return str((found if checkpoint else source.path).resolve())


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
        f"{(epoch + stored.seconds) / epoch:.0f} times as long"
    )
