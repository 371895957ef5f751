"""Cross-validation: train a recipe once per fold, and report the mean over folds with its interval."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from palbert.errors import RecipeError, RunFolderError, StoppedError
from palbert.readers import resolve_files
from palbert.recipe.from_file import run_name
from palbert.recipe.load import dump_recipe, load_run_recipe
from palbert.recipe.paths import data_files
from palbert.recipe.schema import Recipe
from palbert.registry.trust import trusting
from palbert.reporting.display import Table
from palbert.reporting.student_t import mean_interval
from palbert.reporting.wording import Score
from palbert.runtime.distributed import find_ranks
from palbert.runtime.files import AnyPath, sha256, write_text
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import Resume, RunFolder
from palbert.runtime.visible import visible
from palbert.tasks.held_out import HeldOut
from palbert.verbs.in_memory import AnyRecipe, StagedRows
from palbert.verbs.provenance import refuse_another_recipe
from palbert.verbs.train import train

log = logging.getLogger(__name__)

MEANING = (
    "The interval is a 95 % t-interval of the mean over folds: how far the mean might be off because of which rows "
    "are in which fold. Folds share most of their training rows, so it is somewhat too narrow."
)
KEPT = ("overall", "formula", "tasks", "metrics", "epoch", "rows", "baselines")
"""Parts of a fold's report.json that are kept."""


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """The scores of all folds."""

    path: Path
    """The folder with a run folder for each fold."""
    summary: dict[str, Any]
    """The content of folds.json."""

    def table(self) -> Table:
        """Return the mean of each task with its interval and the score of each fold."""
        scores = {(name, metric): self.summary["tasks"][name] for name, metric in self.summary["metrics"].items()}
        if len(scores) > 1:
            scores["overall", ""] = self.summary["overall"]
        baselines: dict[str, dict[str, float]] = self.summary["baselines"]
        rows = [
            (
                *names,
                *(f"{found[names[0]]:.3f}" if names[0] in found else "" for found in baselines.values()),
                f"{score['mean']:.3f}",
                f"{score['low']:.3f} … {score['high']:.3f}",
                " ".join(f"{value:.3f}" for value in score["values"]),
            )
            for names, score in scores.items()
        ]
        header = ("task", "metric", *baselines, "mean", "95 % interval", "folds")
        return Table(header, rows, (*(f"Note: {note}" for note in self.summary["notes"]), MEANING))

    def __repr__(self) -> str:
        return visible(f"{self.table().text()}\nRuns: {self.path}")

    def _repr_html_(self) -> str:
        return self.table().html(links={"All numbers": RunFolder(self.path).folds})


def cross_validate(
    recipe: AnyRecipe,
    *,
    folds: int = 5,
    out: AnyPath | None = None,
    resume: Resume = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    trust: bool = False,
) -> CrossValidation:
    """Train a recipe once per fold: each time, another part of the training rows is dev; return the scores.

    Every fold is a run in a folder of its own, `fold-1` and so on.

    Args:
        recipe: A recipe, its file, the name of a built-in one, its settings as a dict, or a data file. Its tasks must
            have no dev files.
        folds: The number of equal parts that the training rows are divided into.
        out: The folder of all folds; runs/<recipe name> unless given.
        resume: Continue with the first fold that is not finished; "auto" begins if there is none.
        force: Replace what is in that folder.
        overrides: Settings as `key=value`.
        trust: Whether code from outside palbert may be imported that teachers and other runs name.

    Raises:
        StoppedError: Ctrl-C; `resume=True` continues. It is a KeyboardInterrupt.
    """
    name = "run" if isinstance(recipe, Recipe | Mapping) else run_name(recipe)
    loaded = StagedRows().load(recipe, overrides=overrides)
    _refuse_dev_files(loaded, folds)
    folder = RunFolder(Path(out) if out else Path("runs") / name)
    ranks = find_ranks()
    if ranks.is_restarted:  # by the command of the first attempt
        resume, force = "auto", False
    if ranks.is_first:  # the others may find what it has written already
        folder.check_free(resume=resume, force=force)
    if resume == "auto":
        resume = folder.folds.is_file()
    with folder.locked("cross-validation") if ranks.is_first else nullcontext(), trusting(trust):
        if ranks.is_first:
            folder.check_free(resume=resume, force=force)  # again: another process may have been here before the lock
        done = _open(folder, loaded, folds, resume=resume)
        for fold in range(1, folds + 1):
            if str(fold) not in done:
                log.info("fold %d of %d", fold, folds)
                done[str(fold)] = _train_fold(with_fold(loaded, fold, folds), folder, fold, resume=resume, force=force)
                _write(folder, folds, done)
    return CrossValidation(folder.path, _summary(folds, done))


def with_fold(recipe: Recipe, fold: int, folds: int) -> Recipe:
    """Return a recipe whose tasks hold out one of several equal parts of their training rows."""
    tasks = {}
    for name, task in recipe.tasks.items():
        seed = task.held_out.seed if task.held_out else 0
        tasks[name] = task.model_copy(update={"held_out": HeldOut(fold=fold, folds=folds, seed=seed)})
    return recipe.model_copy(update={"tasks": tasks})


def folds_in(folder: Path) -> int | None:
    """Return the number of folds of a cross-validation in a folder, if there is one."""
    file = RunFolder(folder).folds
    return int(_read(file)["folds"]) if file.is_file() else None


def _read(file: Path) -> dict[str, Any]:
    """Read folds.json."""
    hint = "Train again with --force, or into another folder with --out."
    found = read_object(file, raises=RunFolderError, hint=hint)
    if not isinstance(found.get("folds"), int) or not isinstance(found.get("results"), dict):
        raise RunFolderError(f"{file}: damaged: expected 'folds' and 'results'.", hint=hint)
    return found


def _refuse_dev_files(recipe: Recipe, folds: int) -> None:
    """Raise RecipeError unless the dev rows of all tasks are held out from their training rows."""
    if folds < 2:
        raise RecipeError(f"Expected two or more folds, found {folds}.")
    others = [name for name, task in recipe.tasks.items() if not task.held_out]
    if others:
        raise RecipeError(
            f"tasks.{others[0]}.dev: folds are parts of the training rows, but this task has dev rows of its own.",
            hint=f'Hold them out from train instead: --set tasks.{others[0]}.dev="auto"',
        )


def _open(folder: RunFolder, recipe: Recipe, folds: int, *, resume: bool) -> dict[str, Any]:
    """Return the results of finished folds; write the recipe if there are none yet."""
    if resume:
        former = folds_in(folder.path)
        if former is None:
            raise RunFolderError(f"{folder.path}: no folds to continue.", hint="Leave --resume or --folds out.")
        if former != folds:
            raise RunFolderError(f"{folder.path}: has {former} folds, not {folds}.", hint=f"Give --folds {former}.")
        refuse_another_recipe(folder.recipe, recipe)
        done: dict[str, Any] = _read(folder.folds)["results"]
        _refuse_other_data(folder, recipe, done)
        return done
    if find_ranks().is_first:
        found = map(RunFolder, folder.path.glob("fold-[0-9]*"))  # there may have been more
        replaced = [fold for fold in found if fold.exists and not fold.path.is_symlink()]
        for fold in replaced:  # all are removed, or none
            fold.check_free(resume=False, force=True)
        for fold in replaced:
            fold.remove()
        folder.clear()
        write_text(folder.recipe, dump_recipe(recipe))
        _write(folder, folds, {})
    return {}


def _refuse_other_data(folder: RunFolder, recipe: Recipe, done: Iterable[str]) -> None:
    """Raise RunFolderError if files have changed since a fold was trained: folds have to be parts of the same rows."""
    now = {sha256(file) for path in data_files(recipe) for file in resolve_files(path)}
    for fold in done:
        made_of = load_run_recipe(folder.path / f"fold-{fold}" / "recipe.toml").provenance
        changed = [file for file, known in (made_of.data_sha256 if made_of else {}).items() if known not in now]
        if changed:
            raise RunFolderError(
                f"{folder.path}: {changed[0]} has changed since fold {fold} was trained.",
                hint="Train all folds again with --force.",
            )


def _train_fold(recipe: Recipe, folder: RunFolder, fold: int, *, resume: bool, force: bool) -> dict[str, Any]:
    place = RunFolder(folder.path / f"fold-{fold}")
    try:
        run = train(recipe, out=place.path, resume=resume and place.exists, force=force)
    except StoppedError:
        raise StoppedError(folder.path, verb="train") from None
    return {key: run.report[key] for key in KEPT}


def _write(folder: RunFolder, folds: int, done: dict[str, Any]) -> None:
    if find_ranks().is_first:
        summary = _summary(folds, done) if len(done) == folds else {"folds": folds, "results": done}
        write_text(folder.folds, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")


def _summary(folds: int, done: dict[str, Any]) -> dict[str, Any]:
    """Return the mean and the interval of every task's main metric, and overall."""
    results = [done[str(fold)] for fold in range(1, folds + 1)]
    metrics: dict[str, str] = results[0]["metrics"]
    return {
        "folds": folds,
        "metrics": metrics,
        "overall": _spread([result["overall"] for result in results]),
        "formula": results[0]["formula"],
        "tasks": {
            name: _spread([result["tasks"][name][metric] for result in results]) for name, metric in metrics.items()
        },
        "baselines": _baselines(results),
        "notes": list(_notes(results)),
        "interval": MEANING,
        "results": done,
    }


def _baselines(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean over folds of every baseline that all folds have, by task."""
    names = [name for name in results[0]["baselines"] if all(name in result["baselines"] for result in results)]
    return {
        name: {
            task: fmean(result["baselines"][name][task] for result in results) for task in results[0]["baselines"][name]
        }
        for name in names
    }


def _notes(results: list[dict[str, Any]]) -> Iterator[str]:
    """Name tasks that are on average no better than a baseline."""
    baselines = _baselines(results)
    for task, metric in results[0]["metrics"].items():
        mean = fmean(result["tasks"][task][metric] for result in results)
        better = [
            name for name, values in baselines.items() if Score(metric, mean).gain_over(values.get(task, mean)) < 0
        ]
        equal = [name for name, values in baselines.items() if values.get(task) == mean]
        if better or equal:
            relation = "worse than" if better else "no better than"
            yield f"{task}: {metric} {mean:.3f} is on average {relation} the baseline '{(better or equal)[0]}'."


def _spread(values: list[float]) -> dict[str, Any]:
    low, high = mean_interval(values)
    return {"mean": fmean(values), "low": low, "high": high, "values": values}
