"""Findings about training: too few steps, an unstable loss, scores that never rose or still rise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import fmean, median
from typing import Any

from palbert.metrics import find_metric
from palbert.reporting.wording import number, plural
from palbert.verbs.findings.evidence import Evidence

ENOUGH_STEPS = 50
"""Fewer steps than this rarely move an encoder far enough (arXiv:2006.04884, section 6: small data need more steps)."""
NEIGHBOURS = 5
"""A loss is compared with the median of as many lines before it."""
SPIKE = 2.0
"""A spike is a loss above this times that median, and above the first line."""
RISE = 1.25
"""A loss rises at the end if the last fifth of its lines has a mean above this times that of the best fifth."""
STILL_RISING = 0.005
"""A score still rises if the last epoch is better than all before by more than this, mapped to 0…1."""


RAISE_LIMIT = "The run finished early: raise the limit that ended it."


def too_few_steps(evidence: Evidence) -> Iterator[str]:
    """Name tasks that were trained in few steps."""
    drawn: Counter[str] = Counter()
    for record in evidence.records_of("epoch"):
        for name, steps in record["drawn"].items():
            drawn[evidence.recipe.sets[name].task.name if name in evidence.recipe.sets else name] += steps
    for name in evidence.datasets:
        if 0 < drawn[name] < ENOUGH_STEPS:
            epochs = evidence.recipe.training.epochs
            more = f"training.epochs from {epochs} to {epochs * -(-ENOUGH_STEPS // drawn[name])}"
            remedy = RAISE_LIMIT if _ended_early(evidence) else f"Raise {more}, or lower training.batch_size."
            steps = plural(drawn[name], "step")
            yield f"{name}: trained in {steps}; fewer than {ENOUGH_STEPS} are rarely enough. {remedy}"


def unstable_loss(evidence: Evidence) -> Iterator[str]:
    """Name sets whose loss jumps or rises at the end; not where phases change what a loss is made of."""
    for name, lines in _losses(evidence).items() if not evidence.recipe.phases else ():
        spikes = [step for step, _ in _spikes(lines)]
        if spikes:
            times = "once" if len(spikes) == 1 else f"{len(spikes)} times"
            yield (
                f"{name}: its training loss jumped {times}, first by step {spikes[0]}. Lower "
                "optimizer.learning_rate, or warm up with optimizer.schedule."
            )
        elif _rises(lines):
            falls = evidence.recipe.optimizer.schedule.name != "constant"
            fall = "" if falls else ', or let it fall with optimizer.schedule = "stlr"'
            yield f"{name}: its training loss rose towards the end. Lower optimizer.learning_rate{fall}."


def best_before_training(evidence: Evidence) -> Iterator[str]:
    """Name tasks that training made worse."""
    for name, scores in _dev_scores(evidence).items():
        if len(scores) > 1 and scores[0][0] == 0 and scores[0][1] > max(value for _, value in scores[1:]):
            yield (
                f"{name}: its dev score was best before training. Lower optimizer.learning_rate, or train on more rows."
            )


def still_rising(evidence: Evidence) -> Iterator[str]:
    """Say that the last epoch was clearly the best."""
    scores = [(record["epoch"], record["overall"]) for record in evidence.records_of("evaluation")]
    trained = [value for epoch, value in scores if epoch and value is not None]
    if len(trained) < 2:
        return
    *before, last = trained
    if last - max(before) > STILL_RISING:
        epochs = evidence.recipe.training.epochs
        longer = "more epochs in the last phase" if evidence.recipe.phases else f"training.epochs = {2 * epochs}"
        remedy = RAISE_LIMIT if _ended_early(evidence) else f"Train longer: {longer}."
        yield f"The dev score still rose at the end, from {number(max(before))} to {number(last)}. {remedy}"


def _ended_early(evidence: Evidence) -> bool:
    return any(evidence.records_of("end"))


def _losses(evidence: Evidence) -> dict[str, list[tuple[int, float]]]:
    """Return step and loss of every logged line, by set."""
    found: dict[str, list[tuple[int, float]]] = {}
    for record in evidence.records_of("train"):
        for name, value in record["losses"].items():
            if value is not None:
                found.setdefault(name, []).append((record["step"], value))
    return found


def _spikes(lines: list[tuple[int, float]]) -> list[tuple[int, float]]:
    first = lines[0][1] if lines else 0.0
    return [
        (step, value)
        for place, (step, value) in enumerate(lines)
        if place >= NEIGHBOURS
        and value > first
        and value > SPIKE * median(before for _, before in lines[place - NEIGHBOURS : place])
    ]


def _rises(lines: list[tuple[int, float]]) -> bool:
    """Whether the mean of the last fifth is well above that of the best; a loss close to 0 may vary as it likes."""
    size = len(lines) // 5
    if size < 2:
        return False
    fifths = [fmean(value for _, value in lines[start : start + size]) for start in range(0, 5 * size, size)]
    return fifths[-1] > RISE * min(fifths) and fifths[-1] - min(fifths) > 0.1 * fifths[0]


def _dev_scores(evidence: Evidence) -> dict[str, list[tuple[int, float]]]:
    """Return epoch and main metric of every evaluation, mapped to 0…1, by task."""
    found: dict[str, list[tuple[int, float]]] = {}
    for record in evidence.records_of("evaluation"):
        for name, task in evidence.recipe.tasks.items():
            scores: dict[str, Any] = record["tasks"].get(name, {})
            if scores.get(task.metric) is not None:
                scaled = find_metric(task.metric).scaled(scores[task.metric])
                found.setdefault(name, []).append((record["epoch"], scaled))
    return found
