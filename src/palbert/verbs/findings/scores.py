"""Findings about scores: classes that are never found, constant answers, baselines that are not beaten."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

import numpy as np

from palbert.inference.results import TaskResult
from palbert.metrics import find_metric
from palbert.reporting.panels import panels_of
from palbert.reporting.wording import Score, number, plural
from palbert.verbs.findings.evidence import Evidence

WIDE = 0.1
"""An interval is wide if it covers more than this share of the way from the worst to the best score."""

FEW = 30
"""With fewer scored rows, no interval can be trusted."""
LEARNED = 0.5
"""Training rows are learned if the last loss is below this times the first."""
REMEDIES = {
    "cosine": 'pair_input = "siamese", pooling = "mean" and head = "cosine" start from that cosine',
    "linear probe": 'training = "auto" starts from that model, and pooling = "mean" sees the same vectors',
}
"""What to try where a baseline is better, by baseline."""


def constant_answer(evidence: Evidence) -> Iterator[str]:
    """Name tasks whose answer is the same for all rows, though the labels differ."""
    for result in evidence.results:
        if _is_constant(result):
            shown = result.target.show(result.target.answer(result.predicted[0])) or "no class"
            yield f"{result.task}: the model answers '{shown}' for all {len(result.gold)} rows. {_learn_more(evidence)}"


def _learn_more(evidence: Evidence) -> str:
    """Say what to do about a model that always gives the same answer."""
    losses = [record["losses"].values() for record in evidence.records_of("train")]
    ends = [fmean(loss for loss in losses[end] if loss is not None) for end in (0, -1)] if losses else []
    if ends and ends[1] < LEARNED * ends[0]:
        return (
            "It has learned its training rows, but no rule for others: add rows of the other labels, or set "
            'class_weights = "balanced" and a first metric that counts all classes alike, such as "macro_f1".'
        )
    return (
        "It has learned too little: train longer (training.epochs), raise optimizer.head_learning_rate, or add rows of "
        "the other labels."
    )


def below_baseline(evidence: Evidence) -> Iterator[str]:
    """Name tasks that are worse than a baseline, or not better by more than chance; of each, the best baseline."""
    for result in evidence.results:
        metric, value = result.metric, result.scores[result.metric]
        ends = evidence.intervals.get(result.task, {})
        score = Score(metric, value, ends.get("low"), ends.get("high"))
        known = {name: values[result.task] for name, values in evidence.baselines.items() if result.task in values}
        if not known:
            continue
        name, other = min(known.items(), key=lambda item: score.gain_over(item[1]))
        compared = f"than the baseline '{name}', {number(other)}."
        worse = score.gain_over(other) < 0
        improve = _remedy(evidence, result, name, worse=worse, perfect=find_metric(metric).scaled(value) == 1)
        if worse:
            yield f"{result.task}: {metric} {number(value)} is worse {compared} {improve}"
        elif not score.clearly_beats(other) and score.low is not None:
            yield (
                f"{result.task}: {metric} {number(value)} (95 % interval {score.interval_text()}) is not clearly "
                f"better {compared} {improve}"
            )


def _remedy(evidence: Evidence, result: TaskResult, baseline: str, *, worse: bool, perfect: bool) -> str:
    """Say what to do about a score that a baseline reaches."""
    if perfect:
        return "Both are perfect: score harder or more rows to tell them apart."
    if evidence.recipe.tasks[result.task].head_start == "probe":
        remedy = "label more rows, or use the simpler model" if worse else "label more rows, or score more to be sure"
        return f"Training started from there: {remedy}."
    known = f"; {REMEDIES[baseline]}" if baseline in REMEDIES else ""
    return f"To improve it, train for more epochs or with a higher optimizer.learning_rate{known}."


def class_never_found(evidence: Evidence) -> Iterator[str]:
    """Name classes with an F1 of 0 that some scored rows have."""
    for result in evidence.results:
        if _is_constant(result):  # which says it already
            continue
        scores = panels_of(result.target).class_scores(result)
        missed = [(name, each.support) for name, each in scores if each.support and each.f1 == 0]
        for name, support in missed:
            rows = plural(support, f"{result.split} row")
            yield (
                f"{result.task}: the class '{name}' is never answered correctly (F1 0, {rows}). "
                "Add training rows of it, or train longer."
            )


def wide_interval(evidence: Evidence) -> Iterator[str]:
    """Name tasks whose score is uncertain because few rows are scored."""
    for result in evidence.results:
        ends = evidence.intervals.get(result.task)
        if ends is None:
            continue
        metric, rows = find_metric(result.metric), len(result.gold)
        if rows < FEW and ends["low"] == ends["high"]:
            scored = plural(rows, f"{result.split} row")
            yield f"{result.task}: {scored} cannot tell how good the answers are. Score more rows."
        elif abs(metric.scaled(ends["high"]) - metric.scaled(ends["low"])) > WIDE:
            yield (
                f"{result.task}: with {rows} {result.split} rows, its {result.metric} may be anywhere from "
                f"{number(ends['low'])} to {number(ends['high'])}. Score more rows before you trust small differences."
            )


def _is_constant(result: TaskResult) -> bool:
    return len(np.unique(result.predicted, axis=0)) == 1 and len(np.unique(result.gold, axis=0)) > 1
