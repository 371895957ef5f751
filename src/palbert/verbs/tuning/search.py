"""Search: the trials in Optuna's journal: which parameters come next, which trials are pruned, how they ended."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState, create_trial
from pydantic import BaseModel, ConfigDict, FiniteFloat

from palbert.errors import RunFolderError, first_line
from palbert.recipe.space import Choices, Dimension, Parameter, Space
from palbert.runtime.durable import sync_file
from palbert.runtime.files import disk_errors

RANDOM_TRIALS = 8
"""Trials that are drawn at random before the sampler models which settings are good."""
FEWEST_FINISHED, FIRST_PRUNED = 5, 2
"""Complete trials before any is pruned, and the evaluation after which the first may be."""
FEWEST_FOR_IMPORTANCE = 10
"""Complete trials from which importances are estimated."""
ATTEMPTS = 50
"""How often parameters are drawn again that were tried before."""

State = Literal["running", "complete", "pruned", "failed"]
STATES: dict[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.WAITING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class Trial:
    """One trial, as far as it is."""

    number: int
    parameters: dict[str, Parameter]
    state: State
    evaluations: dict[int, float]
    """The overall score by the number of the evaluation, from 1."""
    result: dict[str, Any]
    """What `tell` was given."""


class _Result(BaseModel):
    """What `tell` is given, as far as others read it; everything else is kept as it is."""

    model_config = ConfigDict(strict=True)

    overall: FiniteFloat = 0.0
    wall: FiniteFloat = 0.0
    formula: str = ""
    reason: str = ""
    metrics: dict[str, str] = {}
    tasks: dict[str, dict[str, float]] = {}


class HeldLock(JournalFileOpenLock):
    """No lock of its own: the process holds that of the folder. Optuna's locks outlive a process that is killed."""

    def acquire(self) -> bool:
        """No-op."""
        return True

    def release(self) -> None:
        """No-op."""


class Search:
    """All trials of a search. Parameters depend on the seed and on the trials before them alone.

    Scores are the overall score on dev. Pruning is by the median: a trial is ended if its best score so far is below
    the median of what complete trials had after as many evaluations. That needs neither many trials nor runs of one
    length, which successive halving does: a search here has some tens of trials with a few evaluations each.

    Args:
        journal: The file; trials in it are continued.
        space: What is searched.
        seed: Of the parameters.
    """

    def __init__(self, journal: Path, space: Space, *, seed: int) -> None:
        self.seed = seed
        self.distributions = {each.key: _distribution(each) for each in space.dimensions}
        self.most = math.prod(map(_count, space.dimensions))
        self._lock = threading.Lock()  # of several trials at a time
        drop_half_line(journal)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with disk_errors(journal):
            self.storage, self.study = _open(journal)
        self.pruner = optuna.pruners.MedianPruner(n_startup_trials=FEWEST_FINISHED, n_warmup_steps=FIRST_PRUNED)

    @property
    def trials(self) -> list[Trial]:
        """All trials in the order of their numbers."""
        return [
            Trial(
                each.number, dict(each.params), STATES[each.state], dict(each.intermediate_values),
                each.user_attrs.get("result", {}),
            )
            for each in self._frozen()
        ]  # fmt: skip

    def ask(self, first: Mapping[str, Parameter]) -> Trial | None:
        """Begin a trial: choose its parameters and write them down; None if all combinations have been tried.

        Args:
            first: Parameters of the first trial; those that are missing are drawn.
        """
        with self._lock:
            done = self._frozen()
            tried = [each.params for each in done]
            if len({str(sorted(each.items())) for each in tried}) >= self.most:
                return None
            for attempt in range(ATTEMPTS):
                parameters = self._draw(done, first if not done else {}, attempt)
                if parameters not in tried:
                    break
            begun = create_trial(state=TrialState.RUNNING, params=parameters, distributions=self.distributions)
            self.study.add_trial(begun)  # one line of the journal
            return Trial(len(done), parameters, "running", {}, {})

    def _draw(self, done: list[FrozenTrial], first: Mapping[str, Parameter], attempt: int) -> dict[str, Any]:
        """Return parameters. Every trial has a sampler of its own, so that a resumed search draws the same ones."""
        seed = int(np.random.SeedSequence([self.seed, len(done), attempt]).generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=RANDOM_TRIALS, multivariate=True, constant_liar=True
            )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials(done)
        if first:
            study.enqueue_trial(dict(first))
        return dict(study.ask(self.distributions).params)

    def prune(self, number: int, evaluation: int, score: float) -> bool:
        """Keep a score of a trial, unless it is known; return whether the trial is to be ended."""
        with self._lock:
            trial = self._frozen()[number]
            if evaluation not in trial.intermediate_values:
                self.storage.set_trial_intermediate_value(trial._trial_id, evaluation, score)
            return bool(self.pruner.prune(self.study, self._frozen()[number]))  # of NumPy, where scores are

    def tell(self, number: int, state: State, result: Mapping[str, Any]) -> None:
        """End a trial."""
        with self._lock:
            trial = self._frozen()[number]
            self.storage.set_trial_user_attr(trial._trial_id, "result", dict(result))
            ends = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
            score = result["overall"] if state == "complete" else None
            self.study.tell(number, score, state=ends[state])

    def importances(self) -> dict[str, float]:
        """Return how much each parameter matters for being among the best, by PED-ANOVA (arXiv:2304.10255).

        The other estimator of Optuna, fANOVA, would need scikit-learn. Empty if there are too few complete trials.
        """
        complete = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(complete) < FEWEST_FOR_IMPORTANCE or len({each.value for each in complete}) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_param_importances(self.study, evaluator=PedAnovaImportanceEvaluator())
        return {key: float(value) for key, value in found.items() if math.isfinite(value)}

    def _frozen(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)


def drop_half_line(journal: Path) -> None:
    """Cut off what a killed process had begun to write at the end of a journal; what it stands for is done again."""
    if not journal.is_file():
        return
    content = journal.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with disk_errors(journal), journal.open("r+b") as stream:
            stream.truncate(len(whole))
        sync_file(journal)


def _open(journal: Path) -> tuple[JournalStorage, optuna.Study]:
    try:
        storage = JournalStorage(JournalFileBackend(str(journal), lock_obj=HeldLock(str(journal))))
        study = optuna.create_study(
            study_name="palbert", storage=storage, direction="maximize", load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(seed=0),  # never asked: parameters come from `_draw`
        )  # fmt: skip
        trials = study.get_trials(deepcopy=False)
        for trial in trials:
            _check(trial)
        optuna.create_study(direction="maximize").add_trials(trials)  # as for every draw, which checks parameters
    except OSError:
        raise
    except Exception as error:  # the journal is any text that somebody may have changed
        raise RunFolderError(
            f"{journal}: damaged: {type(error).__name__}: {first_line(error)}.",
            hint="Search again with --force, or into another folder with --out.",
        ) from error
    return storage, study


def _check(trial: FrozenTrial) -> None:
    """Raise ValueError unless what a journal says of a trial is what `prune` and `tell` write."""
    scores = [*trial.intermediate_values.values(), *(trial.values or ())]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in scores):
        raise ValueError(f"trial {trial.number}: a score is not a number")
    result = trial.user_attrs.get("result")
    if result is not None:
        _Result.model_validate(result)
    if trial.state == TrialState.COMPLETE and (trial.value is None or result is None or "overall" not in result):
        raise ValueError(f"trial {trial.number} is complete and has no score")


def _distribution(dimension: Dimension) -> BaseDistribution:
    if isinstance(dimension, Choices):
        return CategoricalDistribution(dimension.labels)
    if dimension.whole:
        step = 1 if dimension.step is None else int(dimension.step)
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log, step=step)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def _count(dimension: Dimension) -> float:
    """Return how many values a setting has."""
    if isinstance(dimension, Choices):
        return len(dimension.choices)
    step = dimension.step or (1 if dimension.whole else None)
    return math.inf if step is None else round((dimension.high - dimension.low) / step) + 1
