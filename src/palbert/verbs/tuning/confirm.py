"""Confirm: the best recipe and the one that was given, trained again with seeds that the search did not use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from palbert.errors import RunFolderError
from palbert.recipe.schema import Recipe
from palbert.reporting.student_t import mean_interval
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.tuning.folder import TuneFolder
from palbert.verbs.tuning.trials import KEPT, Job, Outcome

GIVEN = "recipe"
"""What the runs of the recipe that was given are called."""


@dataclass
class Confirmation:
    """Runs with fresh seeds of two recipes.

    Args:
        folder: The folder of the search.
        best: The number of the best trial.
        recipes: The recipe of that trial, and the one that was given; that one alone if they are the same.
        seeds: The seeds.
    """

    folder: TuneFolder
    best: int
    recipes: Mapping[str, Recipe]
    seeds: Sequence[int]

    def __post_init__(self) -> None:
        self.outcomes: dict[tuple[str, int], Outcome] = {}
        for name, seed in self._all():
            report = RunFolder(self._job(name, seed).run).report("json")
            if report.is_file():  # it is written last
                found = read_object(report, raises=RunFolderError, hint="Remove the run, and resume.")
                self.outcomes[name, seed] = Outcome("complete", {key: found[key] for key in KEPT if key in found})

    def _all(self) -> Iterator[tuple[str, int]]:
        """Yield the runs in the order of seeds, so that an interruption leaves pairs."""
        for seed in self.seeds:
            for name in self.recipes:
                yield name, seed

    def _job(self, name: str, seed: int) -> Job:
        recipe = self.recipes[name].model_copy(update={"seed": seed})
        return Job(f"{name}, seed {seed}", recipe, self.folder.confirmation / f"{name.replace(' ', '-')}-seed-{seed}")

    @property
    def left(self) -> int:
        """How many runs are not finished."""
        return sum(key not in self.outcomes for key in self._all())

    def jobs(self) -> Callable[[], Job | None]:
        """Return a function that returns the next run, until there is none."""
        waiting = iter([key for key in self._all() if key not in self.outcomes])

        def next_job() -> Job | None:
            key = next(waiting, None)
            return self._job(*key) if key else None

        return next_job

    def add(self, job: Job, outcome: Outcome) -> None:
        """Keep how a run ended."""
        name = next(key for key in self._all() if self._job(*key).name == job.name)
        self.outcomes[name] = outcome

    def summary(self, score: float) -> dict[str, Any] | None:
        """Return the scores, and by how much the search overrated the best; None if no run is complete.

        Args:
            score: The score of the best trial in the search.
        """
        runs = {
            name: [self.outcomes.get((name, seed), Outcome("failed", reason="not finished")) for seed in self.seeds]
            for name in self.recipes
        }
        scores = {name: [each.report.get("overall") for each in own] for name, own in runs.items()}
        best = [value for value in scores[next(iter(scores))] if value is not None]
        given = [value for value in scores[GIVEN] if value is not None]
        if not best:
            return None
        pairs = zip(scores[next(iter(scores))], scores[GIVEN], strict=True)
        differences = [one - two for one, two in pairs if one is not None and two is not None]
        found: dict[str, Any] = {
            "seeds": list(self.seeds),
            "trial": self.best,
            "runs": {name: self._plain(own) for name, own in runs.items()},
            "best": fmean(best),
            "recipe": fmean(given) if given else None,
            "bias": score - fmean(best),
            "difference": None,
        }
        if len(self.recipes) > 1 and differences:
            low, high = mean_interval(differences) if len(differences) > 1 else (None, None)
            found["difference"] = {"mean": fmean(differences), "low": low, "high": high}
        return found

    def _plain(self, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
        return [
            {"seed": seed, "state": each.state, **each.result} for seed, each in zip(self.seeds, outcomes, strict=True)
        ]
