"""Train: from a recipe to a run folder with checkpoints and a report."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
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
    load_split,
    load_training_sets,
    make_sampler,
    teach,
    teachers_sha256,
)
from palbert.errors import StoppedError
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.load import load_recipe
from palbert.recipe.schema import Recipe
from palbert.runtime.distributed import find_ranks
from palbert.runtime.precision import choose_device
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.seeding import seed_everything, seed_rank
from palbert.training.checkpoint import TrainerState
from palbert.training.samplers import Consecutive
from palbert.training.trainer import Evaluation, Trainer
from palbert.verbs.data_log import log_data
from palbert.verbs.evaluate import evaluate
from palbert.verbs.pretrain import pretrain_first
from palbert.verbs.run import Run

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

    Under torchrun every process calls it, and only the first writes.

    Args:
        recipe: A recipe, its file, or the name of a built-in one.
        out: The run folder; runs/<recipe name> unless given.
        resume: Continue the run in that folder.
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
        run = TrainingRun(recipe, folder, resume=resume, ranks=ranks).prepare()
        with folder.locked() if ranks.is_first else nullcontext():
            finished = run.fit()
            if finished and ranks.is_first:
                evaluate(folder.path)
        ranks.wait()  # the report is there when the others return
    if finished:
        return folder.path
    raise StoppedError(folder.path, verb="train")


class TrainingRun(Run):
    """One run over the tasks of a recipe, in one or more phases."""

    model: MultiTaskModel

    def load(self) -> None:
        """Load the data, let the teachers answer, and build the model and the trainer of every phase."""
        recipe = self.recipe
        if recipe.optimizer.adapter_learning_rate is not None and recipe.adapters is None:
            log.warning("optimizer.adapter_learning_rate has no effect: the recipe has no adapters.")
        check_lengths(recipe.sets, self.tokenizer)
        with self.ranks.first_process_first():
            sets = load_training_sets(recipe, self.tokenizer)
            self.dev = load_split(recipe, "dev", self.tokenizer)
        log_data(recipe, sets, self.dev, self.tokenizer)
        datasets = [*(each.rows for each in sets.values()), *self.dev.values()]
        files = {file: sha256 for dataset in datasets for file, sha256 in dataset.files.items()}
        self.set_provenance(files, teachers_sha256(recipe))
        with self.ranks.first_process_first():
            self.sets = teach(recipe, sets, tokenizer=self.tokenizer, machine=self.machine)
        self._build(self.encoder_folder)

    def _build(self, encoder_folder: Path) -> None:
        """Make the model and its trainers from an encoder."""
        recipe = self.recipe
        seed_everything(recipe.seed)  # after the teachers: loading one draws random numbers
        self.model = build_model(
            recipe.tasks, build_encoder(recipe, encoder_folder), adapters=recipe.adapters, relation=recipe.relation
        ).to(self.machine.device)
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
            tokenizer=self.tokenizer,
            machine=self.machine,
            train=self.sets,
            evaluate=self._evaluate,
            sampler=self.sampler,
            epochs=self.phases[phase],
            ranks=self.ranks,
        )
        self.ranks.broadcast_module(
            trainer.objective
        )  # a term with random weights would differ between ranks in a later phase
        return trainer

    def _evaluate(self, model: MultiTaskModel, *, epoch: int, step: int) -> Evaluation:
        """Score a model on all tasks; only the first rank does, and nobody reads the scores of another."""
        if not self.ranks.is_first:
            return Evaluation(epoch=epoch, step=step, overall=math.nan, tasks={})
        inference = build_inference(model, tokenizer=self.tokenizer, machine=self.machine)
        return evaluate_now(inference, self.recipe, self.dev, epoch=epoch, step=step)

    def open_folder(self) -> TrainerState | None:
        """Open the folder; if the recipe asks for it, pretrain the encoder first and build the model on the result."""
        state = super().open_folder()
        if self.recipe.pretraining:
            with self.ranks.first_process_first():  # the first pretrains alone, and the others find the encoder
                encoder_folder = pretrain_first(self.recipe, self.folder)
            self._build(encoder_folder)  # when resuming too: mixout falls back to the pretrained weights
        return state

    @property
    def main_metrics(self) -> dict[str, str]:
        """The metric of each task by which its best checkpoint is chosen."""
        return {name: task.metric for name, task in self.recipe.tasks.items()}

    def describe(self) -> dict[str, Any]:
        """Return the description of the model in a checkpoint: encoder, adapters, relational layer and tasks."""
        recipe, files = self.recipe, {"train", "dev", "test", "extra", "teachers", "drop_overlap"}
        return {
            "palbert": __version__,
            "encoder": asdict(self.model.encoder.config),
            "adapters": recipe.adapters.model_dump(mode="json") if recipe.adapters else None,
            "relation": recipe.relation.model_dump(mode="json") if recipe.relation else None,
            "tasks": {name: task.model_dump(mode="json", exclude=files) for name, task in recipe.tasks.items()},
        }
