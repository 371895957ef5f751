"""Training on dev: a final run on train and dev together, once everything has been chosen."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

from palbert.errors import CheckpointError, RecipeError, RunFolderError, StoppedError
from palbert.recipe.load import load_run_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import Phase
from palbert.reporting.wording import plural
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint import read_description
from palbert.training.hooks import read_records
from palbert.verbs.train import train

log = logging.getLogger(__name__)

WITHOUT_LIMITS = {"patience": None, "time_limit": None}


def with_dev(recipe: Recipe, *, epochs: int) -> Recipe:
    """Return a recipe that trains on train and dev together for a number of epochs, counted over all phases.

    Its dev rows stay the same, so the scores of such a run are on rows that it was trained on. They say nothing about
    when to finish, so it does all of its epochs.
    """
    tasks = {
        name: task.model_copy(
            update={
                "train": task.train + task.dev,
                "train_on_dev": not task.dev,  # held out from the training files, or marked in them
                "drop_overlap": tuple(kind for kind in task.drop_overlap if not kind.startswith("dev")),
            }
        )
        for name, task in recipe.tasks.items()
    }
    length = f"{epochs} epoch{'s' * (epochs > 1)}"
    added = f"Trained on train and dev together for {length}: scores on dev are on rows it was trained on."
    changes: dict[str, Any] = {"tasks": tasks, "description": f"{recipe.description} {added}".strip()}
    changes["training"] = recipe.training.model_copy(update=WITHOUT_LIMITS)
    if recipe.phases:
        return recipe.model_copy(update={**changes, "phases": _first_epochs(recipe.phases, epochs)})
    changes["training"] = changes["training"].model_copy(update={"epochs": epochs})
    return recipe.model_copy(update=changes)


def has_dev(recipe: Recipe) -> bool:
    """Whether a recipe trains on all of its dev rows."""
    return all(
        all(source in task.train for source in task.dev) if task.dev else task.train_on_dev
        for task in recipe.tasks.values()
    )


def _first_epochs(phases: tuple[Phase, ...], epochs: int) -> tuple[Phase, ...]:
    """Keep the first epochs of a run with phases."""
    kept = []
    for phase in phases:
        own = min(phase.training.epochs, epochs)
        if own:
            training = phase.training.model_copy(update={**WITHOUT_LIMITS, "epochs": own})
            kept.append(phase.model_copy(update={"training": training}))
        epochs -= own
    return tuple(kept)


def folder_with_dev(folder: RunFolder) -> RunFolder:
    """Return the run folder `RUN-with-dev` next to a run."""
    path = folder.path if folder.path.name else folder.path.resolve()  # "." has no name
    return RunFolder(path.with_name(f"{path.name}-with-dev"))


def is_finished(folder: RunFolder) -> bool:
    """Whether a run has done all of its epochs or finished early; an interrupted one may have a report as well."""
    if not folder.recipe.is_file() or not folder.has_begun:
        return False
    if any(record["kind"] == "end" for record in read_records(folder.metrics)):
        return True
    epochs = sum(stage.training.epochs for stage in load_run_recipe(folder.recipe).stages)
    return bool(read_description(folder.checkpoints / "last")["scores"].get("epoch") == epochs)


def train_with_dev(folder: RunFolder, target: RunFolder, checkpoint: str | None, *, force: bool) -> Path:
    """Train a run's recipe again on train and dev, or continue doing so.

    No rows are left to choose the number of epochs on, so that of the checkpoint is taken.
    """
    if is_finished(target) and not force:
        raise RunFolderError(
            f"{target.path}: has been trained on train and dev already.",
            hint=f"Predict with it: palbert submit {target.path}; or train it again with --force.",
        )
    chosen = folder.checkpoint(checkpoint)
    epoch = read_description(chosen).get("scores", {}).get("epoch")
    if epoch == 0:
        raise CheckpointError(
            f"{chosen}: the model before training was the best, so training on dev too would not help.",
            hint="Leave --with-dev out.",
        )
    if epoch is None or not folder.recipe.is_file():
        raise CheckpointError(
            f"{chosen}: neither its number of epochs nor its recipe is known.",
            hint="Give the folder of a run that has finished an epoch.",
        )
    epoch = math.ceil(epoch)  # a checkpoint from within an epoch counts as the whole epoch
    recipe = load_run_recipe(folder.recipe, check_files=True)
    if has_dev(recipe):
        raise RecipeError(f"{folder.path}: has been trained on dev already.", hint="Leave --with-dev out.")
    resume = target.recipe.is_file() and not force
    log.info(
        "%s on train and dev together, in %s: %s, as many as %s took; no dev rows are left to choose a checkpoint on, "
        "so the last one is used, and its scores on dev are on rows it was trained on",
        "continuing to train" if resume else "training",
        target.path,
        plural(epoch, "epoch"),
        chosen.name,
    )
    try:
        return train(with_dev(recipe, epochs=epoch), out=target.path, resume=resume, force=force).path
    except StoppedError as stop:
        raise StoppedError(stop.folder, verb="submit") from None
