"""Pretrain: a recipe's encoder, trained further on masked words of the tasks' own text, to an encoder folder."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from palbert import __version__
from palbert.build import Machine, build_pretrainer, check_names, check_pretraining, load_corpus
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DeviceError, RunFolderError, StoppedError, TrainingError
from palbert.model.masked import load_masked, save_masked
from palbert.model.pretrained import remove_folder_files, resolve_encoder
from palbert.model.recompute import recompute_activations
from palbert.recipe.load import dump_recipe, load_recipe, with_texts
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import PretrainingSection
from palbert.runtime.distributed import find_ranks
from palbert.runtime.files import write_text
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.seeding import restore_random_state, seed_everything
from palbert.training.checkpoint import (
    load_weights,
    read_description,
    read_state,
    restore_objective,
    restore_optimizer,
)
from palbert.training.hooks import Checkpoints, MetricsLog, read_records
from palbert.training.interrupt import stop_on_interrupt
from palbert.training.trainer import Position
from palbert.verbs.running import (
    compare_provenance,
    provenance_of,
    refuse_another_recipe,
    refuse_own_encoder,
    tensorboard_writers,
)

log = logging.getLogger(__name__)


def pretrain(
    recipe: Recipe | str | Path,
    *,
    text: Sequence[str | Path] = (),
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
) -> Path:
    """Train a recipe's encoder further on masked words; return the folder of the new encoder.

    Args:
        recipe: A recipe, its file, or the name of a built-in one; its `[pretraining]` section says how.
        text: Plain text files, one text a line, beside the texts of the tasks' training files.
        out: The folder; runs/<name of the recipe>-pretrained unless given.
        resume: Go on with what was begun in that folder.
        force: Replace what is in that folder.
        overrides: Settings as `key=value`.

    Raises:
        StoppedError: Ctrl-C; `resume=True` continues from checkpoints/last. It is a KeyboardInterrupt.
    """
    if find_ranks().size > 1:
        raise DeviceError("Further pretraining runs in one process.", hint="Start it without torchrun.")
    name = "run" if isinstance(recipe, Recipe) else Path(recipe).stem
    folder = RunFolder(Path(out) if out else Path("runs") / f"{name}-pretrained")
    if resume and _is_complete(folder):
        raise RunFolderError(
            f"{folder.path}: nothing to resume: this encoder is complete.",
            hint="Add --force to pretrain again, or give another folder with --out.",
        )
    folder.check_free(resume=resume, force=force)
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides=overrides)
    pretraining = Pretraining(with_texts(recipe, text), folder, resume=resume)
    with folder.locked():
        if not pretraining.fit():
            raise StoppedError(folder.path, verb="pretrain")
    return folder.path


def pretrain_first(recipe: Recipe, run: RunFolder) -> Path:
    """Pretrain inside a run, before its tasks, or go on with that; return the folder of the new encoder."""
    folder = RunFolder(run.pretrained)
    if _is_complete(folder):
        log.info("%s: pretrained already", folder.path)
        return folder.path
    pretraining = Pretraining(recipe, folder, resume=folder.has_begun)
    if not pretraining.fit() or pretraining.trainer.stopping:  # Ctrl-C after the last step is one too
        raise StoppedError(run.path, verb="train")
    return folder.path


def _is_complete(folder: RunFolder) -> bool:
    """Whether an encoder is there as a whole: its report is written last."""
    return folder.report("json").is_file()


class Pretraining:
    """One further pretraining: everything is loaded and checked here, before the folder is touched."""

    def __init__(self, recipe: Recipe, folder: RunFolder, *, resume: bool) -> None:
        check_names(recipe)
        self.section = recipe.pretraining or PretrainingSection()
        self.folder = folder
        self.resume = resume and folder.has_begun
        self.machine = Machine.for_recipe(recipe)
        self.source = resolve_encoder(recipe.encoder.name)
        refuse_own_encoder(folder, self.source)
        self.tokenizer = TextTokenizer.from_folder(self.source)
        seed_everything(recipe.seed)
        model = load_masked(
            self.source, dropout=recipe.encoder.dropout, attention_dropout=recipe.encoder.attention_dropout
        )
        if recipe.encoder.recompute:
            model.encoder.run_layer = recompute_activations
        self.model = model.to(self.machine.device)
        check_pretraining(self.section, self.tokenizer, self.model.encoder.config)
        self.train, held_out, files = load_corpus(recipe, self.section, self.tokenizer)
        log.info("pretraining on %s different texts, %s held out", f"{self.train.texts:,}", f"{held_out.texts:,}")
        provenance = provenance_of(self.source, files)
        compare_provenance(recipe.provenance, provenance)
        self.recipe = recipe.model_copy(update={"provenance": provenance, "pretraining": self.section})
        self.trainer = build_pretrainer(
            self.recipe,
            self.section,
            self.model,
            tokenizer=self.tokenizer,
            machine=self.machine,
            train=self.train,
            held_out=held_out,
        )

    def fit(self) -> bool:
        """Train to the end and write the encoder; return False if stopped by Ctrl-C."""
        best = self._restore() if self.resume else self._start()
        training = self.recipe.training
        writers = tensorboard_writers(self.recipe, self.folder)
        metrics = MetricsLog(self.folder.metrics, every=training.log_every, writers=writers)
        description = {"palbert": __version__, "encoder": asdict(self.model.encoder.config), "tasks": {}}
        checkpoints = Checkpoints(
            self.folder.checkpoints,
            self.tokenizer,
            description=description,
            metrics={},
            every=training.save_every,
            best=best,
        )
        if not self.resume:
            before = self.trainer.evaluate(self.model, epoch=0, step=0)
            metrics.write_evaluation(before)
            log.info("before: %s", before)
        self.trainer.hooks = [metrics, checkpoints]
        try:
            with stop_on_interrupt(self.trainer):
                done = self.trainer.fit()
        except TrainingError as error:  # the rate that is at fault has another name here than in training
            hint = "Lower pretraining.learning_rate, or set a smaller training.clip."
            raise TrainingError(error.message, hint=hint) from error
        if done:
            self._finish()
        return done

    def _start(self) -> dict[str, float]:
        self.folder.clear()
        remove_folder_files(self.folder.path)
        write_text(self.folder.recipe, dump_recipe(self.recipe))
        return {}

    def _restore(self) -> dict[str, float]:
        """Put weights, optimizer, generators and position back; return the best score so far."""
        refuse_another_recipe(self.folder.recipe, self.recipe)
        write_text(self.folder.recipe, dump_recipe(self.recipe))  # its files may lie elsewhere now
        last = self.folder.checkpoint("last")
        read_description(last)
        state = read_state(last)
        self.folder.sweep()
        load_weights(last, self.model)
        restore_optimizer(self.trainer.optimizer, state.optimizer)
        restore_objective(last, self.trainer.objective, state.objective)
        restore_random_state(state.random, self.machine.device)
        self.trainer.position = Position(**state.position)
        log.info("resuming at step %d of %d", self.trainer.position.step, self.trainer.total_steps)
        return state.best

    def _finish(self) -> None:
        """Write the encoder, then the report, and remove the checkpoints that only resuming needs."""
        save_masked(self.model, self.folder.path, source=self.source)
        records = [record for record in read_records(self.folder.metrics) if record["kind"] == "evaluation"]
        [before], [after] = (record["tasks"].values() for record in (records[0], records[-1]))
        report = {
            **after,
            "before": before,
            "rows": self.train.texts,
            "tokens": int(self.train.tokens[0].lengths.sum()),
            "encoder": self.recipe.encoder.name,
            "seconds": round(self.trainer.position.seconds, 3),
        }
        write_text(self.folder.report("json"), json.dumps(report, indent=1) + "\n")
        shutil.rmtree(self.folder.checkpoints)
