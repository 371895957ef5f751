"""Pretrain: train a recipe's encoder further on masked words of the tasks' texts, and write an encoder folder."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from palbert import __version__
from palbert.build import build_pretrainer, check_pretraining, load_corpus
from palbert.errors import RunFolderError, StoppedError, TrainingError
from palbert.model.masked import MaskedModel, load_masked, save_masked
from palbert.model.pretrained import remove_folder_files
from palbert.model.recompute import recompute_activations
from palbert.recipe.load import with_texts
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import PretrainingSection
from palbert.runtime.distributed import Ranks, find_ranks
from palbert.runtime.files import AnyPath, remove, write_text
from palbert.runtime.precision import choose_device
from palbert.runtime.progress import progress_shown
from palbert.runtime.run_folder import Resume, RunFolder
from palbert.runtime.seeding import seed_everything, seed_rank
from palbert.training.checkpoint import TrainerState
from palbert.training.hooks import read_records
from palbert.training.trainer import Trainer
from palbert.verbs.in_memory import AnyRecipe, Data, staged
from palbert.verbs.job import Job

log = logging.getLogger(__name__)


def pretrain(
    recipe: AnyRecipe,
    *,
    data: Data | None = None,
    text: Sequence[str | Path] = (),
    out: AnyPath | None = None,
    resume: Resume = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    progress: bool | None = None,
) -> Path:
    """Train a recipe's encoder further on masked words; return the folder of the new encoder.

    Under torchrun every process calls it, and only the first writes.

    Args:
        recipe: A recipe, its file, the name of a built-in one, or its settings as a dict; its `[pretraining]` section
            says how.
        data: Rows by task, in place of files, as `palbert.train` takes them.
        text: Plain text files, one text per line, in addition to the tasks' training texts.
        out: The folder; runs/<recipe name>-pretrained unless given.
        resume: Continue the pretraining in that folder; "auto" begins it if there is none.
        force: Replace what is in that folder.
        overrides: Settings as `key=value`.
        progress: Show the table of scores and the time left; they are shown unless PALBERT_PROGRESS=off is set.

    Raises:
        StoppedError: Ctrl-C or SIGTERM; `resume=True` continues from checkpoints/last. It is a KeyboardInterrupt.
    """
    name = "run" if isinstance(recipe, Recipe | Mapping) else Path(recipe).stem
    folder = RunFolder(Path(out) if out else Path("runs") / f"{name}-pretrained")
    ranks = find_ranks()
    if ranks.is_restarted:  # by the command of the first attempt
        resume, force = "auto", False
    if ranks.is_first:
        _check_folder(folder, resume=resume, force=force)
    with progress_shown(progress if ranks.is_first else False), staged(data) as rows:
        loaded = with_texts(rows.load(recipe, overrides=overrides), text)
        with ranks.connected(choose_device(loaded.run.device)):
            if resume == "auto" and all(ranks.decide(_is_complete(folder))):
                return folder.path
            pretraining = PretrainingJob(loaded, folder, resume=resume, ranks=ranks, rows=rows).prepare()
            with pretraining.locked(force=force):
                finished = pretraining.fit()
    if not finished:
        raise StoppedError(folder.path, verb="pretrain")
    return folder.path


def pretrain_first(recipe: Recipe, run: RunFolder, ranks: Ranks) -> Path:
    """Start or continue the pretraining that precedes a run's tasks; return the folder of the new encoder."""
    folder = RunFolder(run.pretrained)
    with ranks.first_process_first():  # the first may have to move folders back
        found = _is_complete(folder), folder.has_begun
    is_complete, has_begun = ranks.decide(*found)
    if is_complete:
        log.info("%s: pretrained already", folder.path)
        if ranks.is_first:  # what a kill or a power loss left of the checkpoints
            shutil.rmtree(folder.checkpoints, ignore_errors=True)
        return folder.path
    pretraining = PretrainingJob(recipe, folder, resume=has_begun, ranks=ranks).prepare()
    finished = pretraining.fit()
    if not finished or any(ranks.count(pretraining.trainer.stopping)):  # Ctrl-C after the last step counts too
        raise StoppedError(run.path, verb="train")
    return folder.path


def _check_folder(folder: RunFolder, *, resume: Resume, force: bool) -> None:
    """Raise RunFolderError if the folder is not free, or holds nothing to resume."""
    if resume is True and _is_complete(folder):
        raise RunFolderError(
            f"{folder.path}: nothing to resume: this encoder is complete.",
            hint="Add --force to pretrain again, or give another folder with --out.",
        )
    folder.check_free(resume=resume, force=force)


def _is_complete(folder: RunFolder) -> bool:
    """Whether the folder holds a complete encoder: the report is written last."""
    return folder.report("json").is_file()


class PretrainingJob(Job):
    """One further pretraining of a recipe's encoder on masked words."""

    model: MaskedModel

    def load(self) -> None:
        """Load the encoder with its masked-word head and the texts, and build the trainer."""
        recipe, section = self.recipe, self.section
        seed_everything(recipe.seed)
        model = load_masked(
            self.encoder_folder, dropout=recipe.encoder.dropout, attention_dropout=recipe.encoder.attention_dropout
        )
        if recipe.encoder.recompute:
            model.encoder.run_layer = recompute_activations
        self.model = model.to(self.machine.device)
        check_pretraining(section, self.tokenizer, self.model.encoder.config)
        with self.ranks.first_process_first():
            self.train, self.held_out, files = load_corpus(recipe, section, self.tokenizer)
        log.info("pretraining on %s different texts, %s held out", f"{self.train.texts:,}", f"{self.held_out.texts:,}")
        self.set_provenance(files)
        self.recipe = self.recipe.model_copy(update={"pretraining": section})
        self.trainer = self.make_trainer(0)
        self.phases = [self.trainer.epochs]
        seed_rank(recipe.seed, self.ranks)

    @property
    def section(self) -> PretrainingSection:
        """The recipe's `[pretraining]`, or its defaults."""
        return self.recipe.pretraining or PretrainingSection()

    def make_trainer(self, phase: int) -> Trainer:
        """Make the trainer of masked words; there is one phase."""
        return build_pretrainer(
            self.recipe,
            self.section,
            self.model,
            tokenizer=self.tokenizer,
            machine=self.machine,
            train=self.train,
            held_out=self.held_out,
            ranks=self.ranks,
        )

    def fit(self) -> bool:
        """Train to the end and write the encoder; return False if Ctrl-C stopped it before."""
        try:
            finished = super().fit()
        except TrainingError as error:  # the learning rate has another name here than in training
            hint = "Lower pretraining.learning_rate, or set a smaller training.clip."
            raise TrainingError(error.message, hint=hint) from error
        if finished:
            with self.ranks.first_process_first():  # the encoder is there when the others return
                if self.ranks.is_first:
                    self._finish()
        return finished

    def open_folder(self) -> TrainerState | None:
        """Open the folder; remove the encoder that an earlier pretraining wrote."""
        state = super().open_folder()
        if state is None and self.ranks.is_first:
            remove_folder_files(self.folder.path)
        return state

    def phase_name(self, phase: int) -> str:
        """Return "pretraining", which is not among the recipe's phases."""
        return "pretraining"

    def describe(self) -> dict[str, Any]:
        """Return the description of the model in a checkpoint: the encoder, without tasks."""
        return {"palbert": __version__, "encoder": asdict(self.model.encoder.config), "tasks": {}}

    def _finish(self) -> None:
        """Write the encoder, then the report, and remove the checkpoints, which only resuming needs."""
        save_masked(self.model, self.folder.path, source=self.encoder_folder)
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
        remove(self.folder.checkpoints, tree=True)
