"""Tune: search for better settings of a recipe, and show honestly how much better they are."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from palbert.errors import MissingExtraError, PalbertError, RunFolderError, StoppedError, TrainingError
from palbert.readers import resolve_files
from palbert.recipe.from_file import run_name
from palbert.recipe.load import dump_recipe
from palbert.recipe.paths import data_files
from palbert.recipe.schema import Recipe
from palbert.recipe.space import GENERAL, Space, load_space
from palbert.registry.trust import trusting
from palbert.reporting.display import Table
from palbert.reporting.tuning_report import result_table, trials_table
from palbert.runtime.distributed import find_ranks
from palbert.runtime.files import AnyPath, sha256
from palbert.runtime.json_objects import read_object
from palbert.runtime.progress import progress_shown
from palbert.runtime.stop_signals import terminate_as_interrupt
from palbert.runtime.visible import visible
from palbert.verbs.in_memory import AnyRecipe, StagedRows
from palbert.verbs.run import Run
from palbert.verbs.tuning.check import Load, check_space, suited
from palbert.verbs.tuning.folder import TuneFolder
from palbert.verbs.tuning.plan import Plan, make_plan

AnySpace = AnyPath | Mapping[str, Any]
"""A file with a table [space], or that table as a dict."""


class Tuned:
    """A search: `palbert.tune(...)` returns one, and `palbert.Tuned("runs/mine-tuned")` opens one again.

    Args:
        path: The folder of the search.

    Raises:
        RunFolderError: There is no search in the folder.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(path)
        self._folder = TuneFolder(self.path)
        if not self._folder.exists or not self._folder.summary.is_file():
            raise RunFolderError(f"{self.path}: there is no search here.", hint="Give the folder of a search.")

    @property
    def summary(self) -> dict[str, Any]:
        """The content of tune.json."""
        return read_object(self._folder.summary, raises=RunFolderError, hint="Resume the search: it is written again.")

    @property
    def trials(self) -> Table:
        """All trials, the best first; a table."""
        return trials_table(self.summary)

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings of the best trial, by key."""
        return dict(self._best()["parameters"])

    @property
    def score(self) -> float:
        """The score of the best trial in the search; fresh seeds have lower ones on average."""
        return float(self._best()["score"])

    @property
    def best(self) -> Run:
        """The run of the best trial."""
        return Run(self.path / self._best()["run"])

    @property
    def recipe(self) -> Path:
        """The file of the best recipe, for `palbert.train`."""
        self._best()
        return self._folder.best

    def _best(self) -> dict[str, Any]:
        best: dict[str, Any] | None = self.summary["best"]
        if best is None:
            raise PalbertError(f"{self.path}: no trial is complete.", hint="tune.json says why.")
        return best

    def __repr__(self) -> str:
        return visible(f"{result_table(self.summary).text()}\nReport: {self._folder.report}")

    def _repr_html_(self) -> str:
        links = {"The whole report": self._folder.report, "The best recipe": self._folder.best}
        return result_table(self.summary).html(links=links)


def tune(
    recipe: AnyRecipe,
    *,
    space: AnySpace | None = None,
    trials: int = 40,
    time: float | str | None = None,
    jobs: int = 1,
    seed: int = 0,
    keep: int | None = 3,
    confirm: int = 3,
    out: AnyPath | None = None,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    progress: bool | None = None,
    trust: bool = False,
) -> Tuned:
    """Train a recipe with many settings, end bad trials early, and train the best again with fresh seeds.

    Args:
        recipe: A recipe, its file, the name of a built-in one, its settings as a dict, or a data file.
        space: Which settings are searched: a TOML file, or a dict such as `{"training.epochs": {"low": 2, "high": 6}}`.
        trials: How many trials, those of a resumed search included; each is a run, in `trials/0000` and so on.
        time: A limit for this call, in seconds or as text such as "2h"; no trial starts that would not end within it.
        jobs: Runs at a time; with more than one, each is a child process, spread over all GPUs.
        seed: Seed of the settings that are tried. The trials themselves have the recipe's seed.
        keep: Of how many best trials the checkpoints are kept; None keeps all.
        confirm: With how many fresh seeds the best recipe and the given one are trained at the end.
        out: The folder; runs/<recipe name>-tuned unless given.
        resume: Continue the search in that folder.
        force: Replace the search in that folder.
        overrides: Settings as `key=value`, for all trials.
        progress: Show a line per trial and the time left; they are shown unless PALBERT_PROGRESS=off is set.
        trust: Whether code from outside palbert may be imported that teachers and other runs name.

    Raises:
        StoppedError: Ctrl-C; `resume=True` continues. It is a KeyboardInterrupt.
        TrainingError: All trials have failed.
    """
    plan = make_plan(trials=trials, time=time, jobs=jobs, keep=keep, confirm=confirm)
    name = "recipe" if isinstance(recipe, Recipe | Mapping) else run_name(recipe)
    folder = TuneFolder(Path(out) if out else Path("runs") / f"{name}-tuned")
    load = partial(_load, recipe, overrides)
    with progress_shown(progress), trusting(trust), terminate_as_interrupt():
        return _search(name, folder, load, space, plan, seed=seed, resume=resume, force=force)


def _load(recipe: AnyRecipe, overrides: Sequence[str], further: Sequence[str]) -> Recipe:
    """Return a recipe with the user's overrides, and further ones on top."""
    return StagedRows().load(recipe, overrides=[*overrides, *further])


def _search(
    name: str,
    folder: TuneFolder,
    load: Load,
    given: AnySpace | None,
    plan: Plan,
    *,
    seed: int,
    resume: bool,
    force: bool,
) -> Tuned:
    """Check everything, lock the folder, and search."""
    if importlib.util.find_spec("optuna") is None:
        raise MissingExtraError("Tuning needs", package="optuna", extra="tune")
    from palbert.verbs.tuning.tuning import Tuning

    if find_ranks().size > 1:
        raise PalbertError("tune starts processes of its own.", hint="Give --jobs, and start it without torchrun.")
    folder.check_free(resume=resume, force=force)
    base = load(())
    space = _space(given, folder, load, resume=resume)
    with folder.locked():
        folder.check_free(resume=resume, force=force)  # again: another process may have been here before the lock
        _open(folder, base, space, seed, resume=resume)
        try:
            Tuning(name, folder, space, load, base, seed=seed, plan=plan).run()
        except KeyboardInterrupt:
            raise StoppedError(folder.path, verb="tune") from None
    found = Tuned(folder.path)
    if not found.summary["best"]:
        reasons = [trial["reason"] for trial in found.summary["trials"] if trial["reason"]]
        raise TrainingError(
            f"{folder.path}: no trial is complete: {(reasons or ['no trial fits into the time'])[0].rstrip('.')}.",
            hint="The .log file of each trial, in trials/, shows more.",
        )
    return found


def _space(given: AnySpace | None, folder: TuneFolder, load: Load, *, resume: bool) -> Space:
    """Return the space, checked with the recipe: the given one, that of a resumed search, or the general one."""
    if given is None and resume:
        return load_space(folder.space)
    if given is None:
        return suited(load_space(GENERAL), load)
    space = load_space(given if isinstance(given, Mapping) else Path(given))
    check_space(space, load)
    return space


def _open(folder: TuneFolder, base: Recipe, space: Space, seed: int, *, resume: bool) -> None:
    """Begin a search, or refuse to continue one with other settings."""
    files = {str(file): sha256(file) for path in data_files(base) for file in resolve_files(path)}
    settings = {"recipe": dump_recipe(base), "space": space.toml(), "seed": seed, "data": files}
    if not resume:
        folder.begin(settings, space.toml())
        return
    former = folder.settings
    differing = [key for key in ("space", "seed") if former.get(key) != settings[key]]
    if former.get("recipe") != settings["recipe"]:
        differing.insert(0, "recipe")
    known = set(former.get("data", {}).values())
    differing += [f"the content of {file}" for file, digest in files.items() if digest not in known]
    if differing:
        raise RunFolderError(
            f"{folder.path}: cannot resume with another {', '.join(differing)} than the search began with.",
            hint="Search again with --force, or into another folder with --out.",
        )
