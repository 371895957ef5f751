"""Findings about scores: classes that are never found, constant answers, baselines that are not beaten."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from palbert.inference.results import TaskResult
from palbert.metrics import find_metric
from palbert.reporting.panels import panels_of
from palbert.reporting.wording import Score, number, plural
from palbert.verbs.findings.evidence import Evidence

WIDE = 0.1
"""An interval is wide if it covers more than this share of the way from the worst to the best score."""

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
            yield (
                f"{result.task}: the model answers '{shown}' for all {len(result.gold)} rows. It has learned too "
                "little: train longer (training.epochs), raise optimizer.head_learning_rate, or add rows of the "
                "other labels."
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
        improve = _remedy(evidence, result, name, perfect=find_metric(metric).scaled(value) == 1)
        if score.gain_over(other) < 0:
            yield f"{result.task}: {metric} {number(value)} is worse {compared} {improve}"
        elif not score.clearly_beats(other) and score.low is not None:
            yield (
                f"{result.task}: {metric} {number(value)} (95 % interval {score.interval_text()}) is not clearly "
                f"better {compared} {improve}"
            )


def _remedy(evidence: Evidence, result: TaskResult, baseline: str, *, perfect: bool) -> str:
    """Say what to do about a score that a baseline reaches."""
    if perfect:
        return "Both are perfect: score harder or more rows to tell them apart."
    if evidence.recipe.tasks[result.task].head_start == "probe":
        return "Training started from there: label more rows, or use the simpler model."
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
        metric = find_metric(result.metric)
        if abs(metric.scaled(ends["high"]) - metric.scaled(ends["low"])) > WIDE:
            yield (
                f"{result.task}: with {len(result.gold)} {result.split} rows, its {result.metric} may be anywhere from "
                f"{number(ends['low'])} to {number(ends['high'])}. Score more rows before you trust small differences."
            )


def _is_constant(result: TaskResult) -> bool:
    return len(np.unique(result.predicted, axis=0)) == 1 and len(np.unique(result.gold, axis=0)) > 1
