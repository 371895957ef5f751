"""Tuning: runs a search from its first trial, or from where it was stopped, to the confirmation of the best."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from palbert.errors import PalbertError
from palbert.recipe.auto import without_open
from palbert.recipe.load import dump_recipe, load_run_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.space import Space, own_parameters
from palbert.reporting.tuning_report import render_tuning
from palbert.reporting.wording import plural
from palbert.runtime.durations import duration_text
from palbert.runtime.files import remove, write_text
from palbert.runtime.progress import Bar, bar, console, is_shown
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.visible import visible_line
from palbert.training.hooks import SHOWN
from palbert.verbs.tuning.check import Load, quiet
from palbert.verbs.tuning.confirm import GIVEN, Confirmation
from palbert.verbs.tuning.folder import TuneFolder
from palbert.verbs.tuning.plan import Plan
from palbert.verbs.tuning.runners import run_all
from palbert.verbs.tuning.search import Search, Trial
from palbert.verbs.tuning.summary import best_of, summarise
from palbert.verbs.tuning.trials import Decide, Job, Outcome

log = logging.getLogger(__name__)


class Tuning:
    """One search, in a folder that this process has locked.

    Args:
        name: The recipe, as reports call it.
        folder: Its folder.
        space: What is searched.
        load: Returns the recipe with overrides.
        base: The recipe without.
        seed: Of the parameters.
        plan: How long it goes on.
    """

    def __init__(
        self, name: str, folder: TuneFolder, space: Space, load: Load, base: Recipe, *, seed: int, plan: Plan
    ) -> None:
        self.name = name
        self.folder = folder
        self.space = space
        self.load = load
        self.plan = plan
        self.base = base
        self.search = Search(folder.journal, space, seed=seed)
        self.waiting = [trial for trial in self.search.trials if trial.state == "running"]
        self.start = time.monotonic()
        self.begun: dict[str, float] = {}  # when, by the name of the job
        self.confirmation: dict[str, Any] | None = None

    def run(self) -> None:
        """Train all trials, then the runs with fresh seeds; write the report, also if Ctrl-C comes."""
        try:
            self._run_trials()
            self._confirm()
        finally:
            self.write(report=True)

    def write(self, *, report: bool = False) -> None:
        """Write tune.json, the best recipe and the report."""
        summary = summarise(self.name, self.space, self.search, self.confirmation)
        write_text(self.folder.summary, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        best = summary["best"]
        if best:
            recipe = load_run_recipe(self.folder.trial(best["number"]).recipe)
            text = f"# Trial {best['number']} of {self.folder.path.name}: {best['score']:.4f} on dev in the search.\n"
            write_text(self.folder.best, text + dump_recipe(recipe))
        if report:
            text = self.folder.best.read_text("utf-8") if best else ""
            page = render_tuning(self.folder.path.name, summary, recipe=text, space=self.space.toml())
            write_text(self.folder.report, page)

    def _run_trials(self) -> None:
        done = len(self.search.trials) - len(self.waiting)
        if done or self.waiting:
            log.info("resuming: %s done, %d to continue", plural(done, "trial"), len(self.waiting))
        with bar("trials", total=max(self.plan.trials, done), completed=done) as progress:
            for job, outcome in run_all(self._next_trial, self._decide, at_a_time=self.plan.jobs):
                assert job.number is not None
                self._tell(job.number, outcome, seconds=time.monotonic() - self.begun[job.name])
                self._show_trial(job.number, progress)

    def _next_trial(self) -> Job | None:
        """Return a trial that was interrupted, or a new one; None if there is no more, or no more time."""
        while True:
            trial: Trial | None
            if self._is_late():
                return None
            if self.waiting:
                trial = self.waiting.pop(0)
            elif len(self.search.trials) >= self.plan.trials:
                return None
            else:
                trial = self.search.ask(self._own())
            if trial is None:
                log.info("all combinations of the space have been tried")
                return None
            try:
                with quiet():
                    recipe = self.load(self.space.overrides(trial.parameters))
            except PalbertError as error:  # such as a file that has been removed since the space was checked
                self._tell(trial.number, Outcome("failed", reason=" ".join(str(error).split())), seconds=0.0)
                continue
            job = Job(f"trial {trial.number}", recipe, self.folder.trial(trial.number).path, trial.number)
            self.begun[job.name] = time.monotonic()
            return job

    def _own(self) -> dict[str, Any]:
        """Return the parameters of the recipe itself, which the first trial has."""
        values = without_open(self.base.model_dump(mode="json", exclude_none=True), self.base)
        return dict(own_parameters(self.space, values))

    def _decide(self, job: Job) -> Decide:
        """Return what decides whether a run is ended: the pruner for trials, nothing for others."""
        number = job.number
        if number is None:
            return lambda evaluation, score: False
        return lambda evaluation, score: self.search.prune(number, evaluation, score)

    def _tell(self, number: int, outcome: Outcome, *, seconds: float) -> None:
        """Write down how a trial ended, and remove the checkpoints that are not among the best."""
        self.search.tell(number, outcome.state, {**outcome.result, "wall": round(seconds, 3)})
        trials = self.search.trials
        complete = sorted(
            (trial for trial in trials if trial.state == "complete"),
            key=lambda trial: (-trial.result["overall"], trial.number),
        )
        kept = {trial.number for number, trial in enumerate(complete) if number < self.plan.keep}
        for trial in trials if self.plan.keep < math.inf else ():
            if trial.state != "running" and trial.number not in kept:
                remove_checkpoints(self.folder.trial(trial.number))
        self.write()

    def _show_trial(self, number: int, progress: Bar) -> None:
        """Show how a trial ended, the best one so far, and how long the rest will take."""
        trials = self.search.trials
        trial, best = trials[number], best_of(trials)
        score = "" if "overall" not in trial.result else f" {trial.result['overall']:.4f}"
        end = f" {trial.state}{':' if trial.state == 'failed' else ' at'}" if trial.state != "complete" else ""
        reason = f" {trial.result['reason']}" if trial.state == "failed" else ""
        leader = f", best {best.result['overall']:.4f} (trial {best.number})" if best else ""
        done = sum(each.state != "running" for each in trials)
        left = self._seconds_left(max(self.plan.trials - done, 0))
        eta = f", about {duration_text(left)} left" if left is not None else ""
        say(f"trial {number}:{end}{score}{reason}{leader}; {done} of {max(self.plan.trials, done)}{eta}")
        progress.advance(left=left)

    def _seconds_left(self, trials: int) -> float | None:
        known: list[float] = [
            each.result["wall"] for each in self.search.trials if each.state in ("complete", "pruned")
        ]
        if not known:
            return None
        mean, longest = sum(known) / len(known), max(known)
        left = (trials * mean + 2 * self.plan.confirm * longest) / self.plan.jobs
        return min(left, max(0.0, self.plan.limit - (time.monotonic() - self.start)))

    def _is_late(self) -> bool:
        """Whether another trial, and the runs with fresh seeds after it, would not end within the time limit."""
        if math.isinf(self.plan.limit):
            return False
        durations = [each.result["wall"] for each in self.search.trials if each.state == "complete"]
        longest = max(durations, default=0.0)
        rounds = 1 + math.ceil(2 * self.plan.confirm / self.plan.jobs)
        late = time.monotonic() - self.start + rounds * longest > self.plan.limit
        if late:
            log.info("no further trial would end within the time limit")
        return late

    def _confirm(self) -> None:
        """Train the best recipe and the given one with fresh seeds."""
        best = best_of(self.search.trials)
        if best is None or not self.plan.confirm:
            return
        with quiet():
            found = self.load(self.space.overrides(best.parameters))
        recipes: dict[str, Recipe] = {f"trial {best.number:04}": found, GIVEN: self.base}
        if found.model_dump() == self.base.model_dump():
            recipes = {GIVEN: self.base}
        seeds: Sequence[int] = [self.base.seed + number for number in range(1, self.plan.confirm + 1)]
        confirmation = Confirmation(self.folder, best.number, recipes, seeds)
        next_job: Callable[[], Job | None] = confirmation.jobs()
        with bar("fresh seeds", total=confirmation.left) as progress:
            for job, outcome in run_all(next_job, self._decide, at_a_time=self.plan.jobs):
                confirmation.add(job, outcome)
                if self.plan.keep < math.inf:
                    remove_checkpoints(RunFolder(job.run))
                score = (
                    f"{outcome.report['overall']:.4f}" if outcome.state == "complete" else f"failed: {outcome.reason}"
                )
                say(f"{job.name}: {score}")
                progress.advance()
        self.confirmation = confirmation.summary(best.result["overall"])


def remove_checkpoints(run: RunFolder) -> None:
    """Remove the checkpoints of a run, which takes most of its space; its report and predictions stay."""
    if not run.checkpoints.is_symlink():
        remove(run.checkpoints, tree=True)


def say(line: str) -> None:
    """Show a line above the bar, or in the log where progress is not shown."""
    log.info("%s", line, extra=SHOWN)
    if is_shown():
        console().print(Text(visible_line(line)), soft_wrap=True)
