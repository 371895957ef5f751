"""Train: a recipe to a run folder."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from palbert import __version__
from palbert.build import (
    Machine,
    build_encoder,
    build_inference,
    build_model,
    build_trainer,
    check_lengths,
    check_names,
    count_overlap,
    evaluate_now,
    load_datasets,
    make_sampler,
    teach,
    teachers_sha256,
)
from palbert.data.collate import count_truncated
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import StoppedError
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import resolve_encoder
from palbert.objectives.logit_adjustment import class_shares
from palbert.recipe.load import dump_recipe, load_recipe
from palbert.recipe.schema import Recipe
from palbert.runtime.distributed import Ranks, find_ranks
from palbert.runtime.files import write_text
from palbert.runtime.precision import choose_device
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.seeding import restore_random_state, seed_apart, seed_everything
from palbert.tasks.spec import Task
from palbert.training.checkpoint import (
    load_weights,
    read_description,
    read_state,
    restore_average,
    restore_objective,
    restore_optimizer,
)
from palbert.training.hooks import Attendance, Checkpoints, MetricsLog
from palbert.training.interrupt import stop_on_interrupt
from palbert.training.samplers import Consecutive
from palbert.training.trainer import Evaluation, Hook, Position, Trainer
from palbert.verbs.evaluate import evaluate
from palbert.verbs.pretrain import pretrain_first
from palbert.verbs.running import (
    compare_provenance,
    provenance_of,
    refuse_another_recipe,
    refuse_own_encoder,
    tensorboard_writers,
)

log = logging.getLogger(__name__)


def train(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
) -> Path:
    """Train a recipe and report on it; return the run folder.

    Started by torchrun, all processes call it, and the first one alone writes.

    Args:
        recipe: A recipe, its file, or the name of a built-in one.
        out: The run folder; runs/<name of the recipe> unless given.
        resume: Go on with the run in that folder.
        force: Replace the run in that folder.
        overrides: Settings as `key=value`.

    Raises:
        StoppedError: Ctrl-C; `resume=True` continues from checkpoints/last. It is a KeyboardInterrupt.
    """
    name = "run" if isinstance(recipe, Recipe) else Path(recipe).stem
    folder = RunFolder(Path(out) if out else Path("runs") / name)
    ranks = find_ranks()
    if ranks.is_first:
        folder.check_free(resume=resume, force=force)
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides=overrides)
    with ranks.connected(choose_device(recipe.run.device)):
        run = Run(recipe, folder, resume=resume, ranks=ranks)
        with folder.locked() if ranks.is_first else nullcontext():
            finished = run.fit()
            if finished and ranks.is_first:
                evaluate(folder.path)
        ranks.wait()  # the report is there when the others return
    if finished:
        return folder.path
    raise StoppedError(folder.path, verb="train")


class Run:
    """One run: everything is loaded and checked here, before the run folder is touched."""

    def __init__(self, recipe: Recipe, folder: RunFolder, *, resume: bool, ranks: Ranks | None = None) -> None:
        self.ranks = ranks or Ranks()
        check_names(recipe, self.ranks)
        if recipe.optimizer.adapter_learning_rate is not None and recipe.adapters is None:
            log.warning("optimizer.adapter_learning_rate has no effect: the recipe has no adapters.")
        machine = Machine.for_recipe(recipe)
        with self.ranks.first_ahead():  # the others find in the caches what the first has loaded
            encoder_folder = resolve_encoder(recipe.encoder.name)
        refuse_own_encoder(folder, encoder_folder)
        self.folder = folder
        self.resume = resume and folder.has_begun
        self.keep_pretrained = resume
        self.tokenizer = TextTokenizer.from_folder(encoder_folder)
        check_lengths(recipe.sets, self.tokenizer)
        with self.ranks.first_ahead():
            data = {split: load_datasets(recipe, split, self.tokenizer) for split in ("train", "dev")}
        _log_data(recipe, data, self.tokenizer)
        files = [dataset.files for datasets in data.values() for dataset in datasets.values()]
        hashes = {file: value for each in files for file, value in each.items()}
        provenance = provenance_of(encoder_folder, hashes, teachers_sha256(recipe))
        compare_provenance(recipe.provenance, provenance)
        self.recipe = recipe.model_copy(update={"provenance": provenance})
        self.machine, self.data = machine, data
        with self.ranks.first_ahead():
            self.taught = teach(recipe, data["train"], tokenizer=self.tokenizer, machine=machine)
        self._build(encoder_folder)

    def _build(self, encoder_folder: Path) -> None:
        """Make the model and its trainers from an encoder."""
        recipe, machine = self.recipe, self.machine
        seed_everything(recipe.seed)  # after the teachers: loading one draws numbers
        self.model = build_model(
            recipe.tasks, build_encoder(recipe, encoder_folder), adapters=recipe.adapters, relation=recipe.relation
        ).to(machine.device)
        rows = {name: len(dataset) for name, dataset in self.data["train"].items()}
        self.stages = recipe.stages
        self.sampler = Consecutive(
            [make_sampler(stage, rows={name: rows[name] for name in stage.sets}) for stage in self.stages]
        )
        for number in reversed(range(len(self.stages))):  # a phase that cannot be built is refused now
            self.trainer = self.trainer_of(number)
        seed_apart(recipe.seed, self.ranks)

    def trainer_of(self, number: int) -> Trainer:
        """Make the trainer of a phase."""
        trainer = build_trainer(
            self.stages[number],
            self.model,
            tokenizer=self.tokenizer,
            machine=self.machine,
            train=self.data["train"],
            taught=self.taught,
            evaluate=self._evaluate,
            sampler=self.sampler,
            epochs=self.sampler.spans[number],
            ranks=self.ranks,
        )
        self.ranks.align(trainer.objective)  # a term that starts at random would differ in a later phase
        return trainer

    def _evaluate(self, model: MultiTaskModel, *, epoch: int, step: int) -> Evaluation:
        """Score a model on all tasks; the first process does it, and nobody looks at the scores of another."""
        if not self.ranks.is_first:
            return Evaluation(epoch=epoch, step=step, overall=math.nan, tasks={})
        inference = build_inference(model, tokenizer=self.tokenizer, machine=self.machine)
        return evaluate_now(inference, self.recipe, self.data["dev"], epoch=epoch, step=step)

    def fit(self) -> bool:
        """Train to the end; return False if stopped by Ctrl-C."""
        best = self._restore() if self.resume else self._start()
        hooks = self._hooks(best)
        while True:
            self.trainer.hooks = hooks
            with stop_on_interrupt(self.trainer):
                finished = self.trainer.fit()
            if summary := self.trainer.execution.summary():
                log.info("%s", summary)
            if not finished:
                return False
            former, position = self.trainer, self.trainer.position
            if position.epoch > self.sampler.epochs:
                return True
            former.average.finish()
            self._enter(self._number_of(position))
            self.trainer.position, self.trainer.stopping = position, former.stopping

    def _hooks(self, best: dict[str, float]) -> list[Hook]:
        """Make what watches the run; score the model before training."""
        if not self.ranks.is_first:
            return [Attendance(every=self.recipe.training.save_every)]
        writers = tensorboard_writers(self.recipe, self.folder)
        metrics = MetricsLog(self.folder.metrics, every=self.recipe.training.log_every, writers=writers)
        checkpoints = Checkpoints(
            self.folder.checkpoints,
            self.tokenizer,
            description=self._description(),
            metrics={name: task.metric for name, task in self.recipe.tasks.items()},
            every=self.recipe.training.save_every,
            best=best,
        )
        if not self.resume:
            metrics.write_evaluation(self.trainer.evaluate(self.model, epoch=0, step=0))
        return [metrics, checkpoints]

    def _number_of(self, position: Position) -> int:
        """Return the phase that a position lies in; after the end, the last."""
        found = (number for number, epochs in enumerate(self.sampler.spans) if position.epoch in epochs)
        return next(found, len(self.stages) - 1)

    def _enter(self, number: int) -> None:
        """Go on with another phase."""
        self.trainer = self.trainer_of(number)
        name = self.recipe.phases[number].name
        log.info("phase %d/%d%s", number + 1, len(self.stages), f": {name}" if name else "")

    def _start(self) -> dict[str, float]:
        if self.keep_pretrained:  # resumed before the tasks had their first checkpoint
            refuse_another_recipe(self.folder.recipe, self.recipe)
        if self.ranks.is_first:
            self.folder.clear(keep_pretrained=self.keep_pretrained)
            write_text(self.folder.recipe, dump_recipe(self.recipe))
        if self.recipe.pretraining:
            with self.ranks.first_ahead():  # it pretrains alone, and the others find the encoder
                encoder_folder = pretrain_first(self.recipe, self.folder)
            self._build(encoder_folder)
        return {}

    def _restore(self) -> dict[str, float]:
        """Put weights, optimizer, generators and position back; return the best scores so far."""
        refuse_another_recipe(self.folder.recipe, self.recipe)
        last = self.folder.checkpoint("last")
        if self.ranks.is_first:
            write_text(self.folder.recipe, dump_recipe(self.recipe))  # its files may lie elsewhere now
        with self.ranks.first_ahead():  # it may have to put folders back
            read_description(last)
            state = read_state(last)
            self.folder.sweep()
        if self.recipe.pretraining:  # mixout goes back to the weights that the tasks began with
            self._build(self.folder.pretrained)
        load_weights(last, self.model)
        position = Position(**state.position)
        restore_random_state(state.random, self.machine.device, self.ranks)
        number = self._number_of(position)
        if number > 0:
            self._enter(number)
        if position.done or position.epoch > self.sampler.spans[number].start:  # not where a phase begins anew
            restore_average(last, self.trainer.average, state.average)
            restore_optimizer(self.trainer.optimizer, state.optimizer)
            restore_objective(last, self.trainer.objective, state.objective)
            restore_random_state(state.random, self.machine.device, self.ranks)
        self.trainer.position = position
        log.info("resuming at step %d of %d", self.trainer.position.step, self.trainer.total_steps)
        return state.best

    def _description(self) -> dict[str, Any]:
        return {
            "palbert": __version__,
            "encoder": asdict(self.model.encoder.config),
            "adapters": self.recipe.adapters.model_dump(mode="json") if self.recipe.adapters else None,
            "relation": self.recipe.relation.model_dump(mode="json") if self.recipe.relation else None,
            "tasks": {
                name: task.model_dump(
                    mode="json", exclude={"train", "dev", "test", "extra", "teachers", "drop_overlap"}
                )
                for name, task in self.recipe.tasks.items()
            },
        }


def _log_data(recipe: Recipe, data: Mapping[str, Mapping[str, Dataset]], tokenizer: TextTokenizer) -> None:
    for split, datasets in data.items():
        for name, dataset in datasets.items():
            task = recipe.sets[name]
            cut = count_truncated(dataset.tokens, tokenizer.template, max_length=task.max_length, siamese=task.siamese)
            details = [f"{len(dataset):,} {'triplets' if task.triplets else 'rows'}"]
            details += [f"{cut:,} cut at {task.max_length} tokens"] if cut else []
            details += [f"{dataset.dropped:,} without text or label left out"] if dataset.dropped else []
            details += [f"{dataset.unmapped:,} left out by the label mapping"] if dataset.unmapped else []
            lacking = f"{dataset.unpaired:,} premises without entailment or contradiction left out"
            details += [lacking] if dataset.unpaired else []
            overlap = f"{dataset.overlapping:,} left out that {' or '.join(task.drop_overlap)} has"
            details += [overlap] if dataset.overlapping else []
            log.info("%s %s: %s", name, split, ", ".join(details))
    for name, dataset in data["train"].items():
        _log_shares(name, recipe.sets[name], dataset)
        _log_overlap(name, recipe.tasks[recipe.task_of[name]], dataset)


def _log_shares(name: str, task: Task, dataset: Dataset) -> None:
    """Say which class shares a set has, and which ones the model is to answer for."""
    if task.prior and dataset.labels is not None:
        found, wanted = (
            " / ".join(f"{share:.1%}" for share in shares)
            for shares in (class_shares(dataset.labels, len(task.classes)), task.prior)
        )
        log.info("%s train: class shares %s, trained to answer for %s", name, found, wanted)


def _log_overlap(name: str, task: Task, dataset: Dataset) -> None:
    """Say which rows a set shares with dev and test, unless it was asked to: an overlap may be an oversight."""
    for kind, rows in count_overlap(task, dataset, local=True).items():
        meant = all(source in task.train for source in getattr(task, kind.removesuffix("-texts")))
        if rows and not meant and not kind.endswith("-texts"):
            shared = f"{rows:,} of its rows {'is' if rows == 1 else 'are'} in {kind} too"
            log.info('%s train: %s; tasks.%s.drop_overlap = ["%s"] leaves them out', name, shared, task.name, kind)
