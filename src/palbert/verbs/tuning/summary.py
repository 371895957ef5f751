"""Summary: what tune.json, the report and a notebook show of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from palbert.recipe.space import Numbers, Space
from palbert.reporting.wording import Score, number, plural, signed
from palbert.verbs.tuning.search import FEWEST_FOR_IMPORTANCE, Search, Trial

EDGE = 0.02
"""The share of a range, at its ends, in which a best value suggests a wider range."""


def summarise(name: str, space: Space, search: Search, confirmation: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return all numbers of a search."""
    trials = search.trials
    best = best_of(trials)
    found: dict[str, Any] = {
        "recipe": name,
        "seed": search.seed,
        "space": {each.key: each.described() for each in space.dimensions},
        "formula": next((trial.result["formula"] for trial in trials if "formula" in trial.result), ""),
        "metrics": next((trial.result["metrics"] for trial in trials if "metrics" in trial.result), {}),
        "trials": [_trial(trial) for trial in trials],
        "best": _trial(best) if best else None,
        "importances": search.importances(),
        "confirmation": confirmation,
    }
    found["pareto"] = pareto(found["trials"], found["metrics"])
    found["notes"] = list(_notes(found, space))
    return found


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the complete trial with the highest score, the first of equal ones; None if there is none."""
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: (trial.result["overall"], -trial.number), default=None)


def _trial(trial: Trial) -> dict[str, Any]:
    result = trial.result
    return {
        "number": trial.number,
        "state": trial.state,
        "score": result.get("overall"),
        "parameters": trial.parameters,
        "tasks": result.get("tasks", {}),
        "evaluations": [trial.evaluations[step] for step in sorted(trial.evaluations)],
        "epoch": result.get("epoch"),
        "seconds": result.get("wall"),
        "reason": result.get("reason", ""),
        "run": f"trials/{trial.number:04}",
    }


def main_scores(trial: Mapping[str, Any], metrics: Mapping[str, str]) -> dict[str, float]:
    """Return the main metric of every task of a trial, so that more is better."""
    return {
        task: Score(metric, 0.0).gain_over(-trial["tasks"][task][metric])
        for task, metric in metrics.items()
        if metric in trial["tasks"].get(task, {})
    }


def pareto(trials: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]) -> list[int]:
    """Return the numbers of complete trials for which no other is as good on every task and better on one."""
    scores = {trial["number"]: main_scores(trial, metrics) for trial in trials if trial["state"] == "complete"}
    scores = {key: own for key, own in scores.items() if len(own) == len(metrics)}

    def dominated(own: Mapping[str, float]) -> bool:
        return any(
            all(other[task] >= own[task] for task in own) and any(other[task] > own[task] for task in own)
            for other in scores.values()
        )

    return [key for key, own in scores.items() if not dominated(own)]


def _notes(found: Mapping[str, Any], space: Space) -> Iterator[str]:
    """Yield what a reader should know, one sentence each."""
    best = found["best"]
    failed = [trial for trial in found["trials"] if trial["state"] == "failed"]
    reasons: dict[str, list[str]] = {}
    for trial in failed:
        reasons.setdefault(trial["reason"], []).append(str(trial["number"]))
    for reason, numbers in reasons.items():
        yield f"{plural(len(numbers), 'trial')} failed ({', '.join(numbers)}): {reason.rstrip('.')}."
    if best is None:
        yield "No trial is complete yet."
        return
    yield from _edges(best["parameters"], space)
    if not found["importances"]:
        yield f"Importances are estimated from {FEWEST_FOR_IMPORTANCE} complete trials on."
    confirmation = found["confirmation"]
    if confirmation is None:
        yield (
            "The best score is the highest of several and therefore too high by chance. "
            "Fresh seeds (--confirm) show by how much."
        )
        return
    yield from _confirmed(confirmation, best)


def _confirmed(confirmation: Mapping[str, Any], best: Mapping[str, Any]) -> Iterator[str]:
    count = plural(len(confirmation["seeds"]), "fresh seed")
    yield (
        f"Trial {best['number']} had {number(best['score'], 4)} in the search, and {number(confirmation['best'], 4)} "
        f"on average with {count}: {signed(-confirmation['bias'], 4)}. The second figure is the fair one."
    )
    difference = confirmation["difference"]
    if len(confirmation["runs"]) == 1:
        yield "The best trial has the settings of the recipe itself: the search has found nothing better."
    elif difference is None:
        yield "The recipe as it was given could not be trained for comparison."
    elif difference["low"] is None:
        yield "One seed says nothing about chance: give --confirm 3 or more."
    elif difference["low"] <= 0 <= difference["high"]:
        yield (
            "The difference between the best settings and the recipe as it was given is within chance "
            f"({signed(difference['low'], 4)} to {signed(difference['high'], 4)})."
        )
    yield (
        "All scores are on dev, by which the settings were chosen. "
        "Rows that had no part in the search, such as a test file, are the last word."
    )


def _edges(parameters: Mapping[str, Any], space: Space) -> Iterator[str]:
    for each in space.dimensions:
        if not isinstance(each, Numbers) or each.key not in parameters or each.whole:
            continue
        place = each.share(float(parameters[each.key]))
        if place < EDGE or place > 1 - EDGE:
            end, way = ("low", "lower") if place < EDGE else ("high", "higher")
            value = f"{parameters[each.key]:.3g}"
            yield f"The best {each.key}, {value}, is at the {end} end of its range: better ones may be {way}."
