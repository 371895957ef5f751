"""Assessment: how far a task's probabilities can be trusted, and what abstaining would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palbert.inference.decisions import FOLDS, Decision, cross_fitted, needs_rows
from palbert.inference.results import TaskResult
from palbert.metrics import Values, find_metric, log_loss
from palbert.metrics.calibration import Reliability, claims, reliability
from palbert.targets import Decoded, Target
from palbert.tasks.spec import Task

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""The values of `min_confidence` in the table of coverage."""
DRAWS = 200
"""How often labels are drawn from the probabilities to see the error of a perfectly calibrated model."""
FEW = 10
"""Rows with or without a class below which its threshold is called uncertain."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Calibrated:
    """Probabilities of one kind, such as those before calibration, judged by the labels."""

    name: str
    reliability: Reliability
    log_loss: float
    by_chance: float
    """The error of a model whose probabilities are right, on as many rows: the mean over labels drawn from them."""

    @property
    def error(self) -> float:
        """The expected calibration error."""
        return self.reliability.error


@dataclass(frozen=True)
class Level:
    """What is left of the answers at one value of `min_confidence`."""

    min_confidence: float
    coverage: float
    """The share of rows that are answered."""
    right: float | None
    """The share of right answers among them; None if there are none."""


@dataclass(frozen=True)
class Assessment:
    """Everything that a report says about a task's probabilities."""

    before: Calibrated
    """As the head gives them."""
    after: Calibrated | None
    """Calibrated, on dev by rows other than the judged ones; None without calibration."""
    coverage: Numbers
    """Shares of rows that are answered, least sure rows left out, rising to 1."""
    right: Numbers
    """The share of right answers for each of them."""
    levels: list[Level]
    thresholds: dict[str, float]
    """The thresholds that dev has chosen, by class."""
    cross_fitted: float | None
    """The main metric on dev with thresholds that other rows have chosen; None where dev has chosen none."""
    rows: int
    rare: list[str]
    """Classes with few dev rows, or few without them, whose threshold dev has chosen."""

    def summary(self) -> dict[str, Any]:
        """Return the content of report.json: plain values."""
        last = self.after or self.before
        values: dict[str, Any] = {"ece": last.error, "ece_by_chance": last.by_chance, "log_loss": last.log_loss}
        if self.after is not None:
            values |= {"ece_before": self.before.error, "log_loss_before": self.before.log_loss}
        if self.thresholds:
            values["thresholds"] = self.thresholds
        if self.cross_fitted is not None:
            values["cross_fitted"] = self.cross_fitted
        levels = [{"min_confidence": each.min_confidence, "coverage": each.coverage, "right": each.right}
                  for each in self.levels]  # fmt: skip
        return values | {"coverage": levels}


def assess(task: Task, result: TaskResult, decision: Decision | None) -> Assessment | None:
    """Judge the probabilities of a result; None where there are none.

    On dev, what dev has chosen is judged on rows that did not choose it (five folds); on other rows, as it is.
    """
    target, outputs, gold = result.target, result.outputs, result.gold
    used = Decoded(result.predicted, result.probabilities)
    if outputs is None or result.probabilities is None or not len(gold) or target.confidence(used) is None:
        return None
    decision = decision or Decision.of(task)
    raw = decision.uncalibrated().decode(target, torch.from_numpy(outputs))
    fitted_here = result.split == "dev" and needs_rows(task) and len(gold) >= FOLDS
    honest = cross_fitted(task, outputs, gold) if fitted_here else used
    assert raw.probabilities is not None and honest.probabilities is not None
    names = target.classes if target.many else target.classes[1:]
    chosen = isinstance(decision.threshold, str)
    metric = find_metric(result.metric)
    calibrated_by = f"calibrated, {FOLDS} folds" if fitted_here else "calibrated"
    coverage, right = coverage_curve(target, honest, gold)
    return Assessment(
        before=_judged("as trained", gold, raw.probabilities),
        after=_judged(calibrated_by, gold, honest.probabilities) if decision.scale else None,
        coverage=coverage,
        right=right,
        levels=[_level(target, honest, gold, level) for level in LEVELS],
        thresholds=dict(zip(names, decision.thresholds, strict=True)) if chosen else {},
        cross_fitted=(
            metric(gold, metric.compared(honest.predicted, honest.probabilities)) if chosen and fitted_here else None
        ),
        rows=len(gold),
        rare=_rare(names, gold) if chosen and result.split == "dev" else [],
    )


def coverage_curve(target: Target, decoded: Decoded, gold: Values) -> tuple[Numbers, Numbers]:
    """Return the share of rows that are answered and the share of right answers, surest rows first."""
    confidence, right = _confidence(target, decoded), _right(decoded, gold)
    order = np.argsort(-confidence, kind="stable")
    counts = np.arange(1, len(order) + 1)
    last = np.append(np.diff(confidence[order]) != 0, True)  # equally sure rows are answered together
    return (counts / len(order))[last], (np.cumsum(right[order]) / counts)[last]


def assess_all(
    tasks: Mapping[str, Task], results: Sequence[TaskResult], decisions: Mapping[str, Decision]
) -> dict[str, Assessment]:
    """Judge the probabilities of every task that has any."""
    found = {each.task: assess(tasks[each.task], each, decisions.get(each.task)) for each in results}
    return {name: assessment for name, assessment in found.items() if assessment is not None}


def decision_notes(results: Sequence[TaskResult], assessments: Mapping[str, Assessment]) -> list[str]:
    """Return what a reader must know about scores with thresholds that dev has chosen."""
    notes = []
    for result in results:
        own = assessments.get(result.task)
        if own is None or not own.thresholds or result.split != "dev":
            continue
        honest = ""
        if own.cross_fitted is not None:
            honest = f"; with thresholds chosen by other rows, {result.metric} is {own.cross_fitted:.3f}"
        notes.append(f"{result.task}: dev has chosen its thresholds, so its scores on dev are optimistic{honest}.")
        if own.rare:
            few = f"fewer than {FEW} rows with or without {', '.join(own.rare)}"
            notes.append(f"{result.task}: dev has {few}, so these thresholds are uncertain.")
    return notes


def _judged(name: str, gold: Values, probabilities: Numbers) -> Calibrated:
    confidence, right = claims(gold, probabilities)
    generator = np.random.default_rng(0)
    draws = [reliability(confidence, generator.random(len(confidence)) < confidence).error for _ in range(DRAWS)]
    return Calibrated(name, reliability(confidence, right), log_loss(gold, probabilities), float(np.mean(draws)))


def _level(target: Target, decoded: Decoded, gold: Values, least: float) -> Level:
    answered = _confidence(target, decoded) >= least
    right = float(_right(decoded, gold)[answered].mean()) if answered.any() else None
    return Level(least, float(answered.mean()), right)


def _confidence(target: Target, decoded: Decoded) -> Numbers:
    confidence = target.confidence(decoded)
    assert confidence is not None
    return confidence


def _right(decoded: Decoded, gold: Values) -> NDArray[np.bool_]:
    """Return which rows have a right answer; of several classes, all must be right."""
    equal = np.asarray(decoded.predicted == gold)
    return equal if equal.ndim == 1 else np.asarray(equal.all(axis=1))


def _rare(names: tuple[str, ...], gold: Values) -> list[str]:
    labels = gold.reshape(len(gold), -1) == 1
    counts = np.minimum(labels.sum(axis=0), len(gold) - labels.sum(axis=0))
    return [name for name, count in zip(names, counts, strict=True) if count < FEW]
