"""Plots of results: training losses of rows side by side, and what a row answered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palbert.errors import MissingExtraError
from palbert.reporting.plots import (
    confusion_matrix,
    label_distribution,
    loss_curves,
    residuals,
    seed_scores,
    similarity_scatter,
)
from palbert.reporting.svg import require_matplotlib
from palbert.reproduction.table import Result, score


def curve_plots(results: Sequence[Result], tasks: Sequence[str]) -> dict[str, str]:
    """Draw the training losses of several rows, a plot for each task that has any."""
    drawn = {}
    for task in tasks:
        losses = {
            str(result["label"]): tuple(zip(*result["losses"][task], strict=True))
            for result in results
            if result["losses"].get(task)
        }
        if losses and _can_draw():
            drawn[f"loss-{task}"] = loss_curves({label: (points[0], points[1]) for label, points in losses.items()})
    return drawn


def score_plot(rows: Sequence[Sequence[Result]], metrics: Sequence[str]) -> dict[str, str]:
    """Draw the scores of several rows, every seed of each; nothing where a row lacks one of the metrics."""
    found = {
        metric: {
            str(row[0]["label"]): [value for each in row if (value := score(each, metric)) is not None] for row in rows
        }
        for metric in metrics
    }
    if not all(values for row in found.values() for values in row.values()) or not _can_draw():
        return {}
    return {"scores": seed_scores(found)}


def label_plot(result: Result, task: str) -> dict[str, str]:
    """Draw how the labels of a task are spread in its training sets and in dev."""
    found = result["labels"].get(task)
    if not found or not _can_draw():
        return {}
    classes = result["confusion"][task]["classes"]
    splits = {name: np.repeat(np.arange(len(classes)), counts) for name, counts in found.items()}
    return {f"labels-{task}": label_distribution(splits, classes=classes, name=task)}


def answer_plots(result: Result) -> dict[str, str]:
    """Draw confusion matrices with the labels given and predicted, and numbers with their residuals."""
    drawn: dict[str, str] = {}
    if not _can_draw():
        return drawn
    for task, matrix in result["confusion"].items():
        counts, classes = np.array(matrix["counts"], dtype=np.int64), matrix["classes"]
        labels = np.arange(len(classes))
        splits = {"gold": np.repeat(labels, counts.sum(axis=1)), "predicted": np.repeat(labels, counts.sum(axis=0))}
        drawn[f"confusion-{task}"] = confusion_matrix(counts, classes, name=task)
        drawn[f"labels-{task}"] = label_distribution(splits, classes=classes, name=task)
    for task, numbers in result["numbers"].items():
        gold, predicted = (np.repeat(numbers[side], numbers["rows"]) for side in ("gold", "predicted"))
        drawn[f"numbers-{task}"] = similarity_scatter(gold, predicted, name=task)
        drawn[f"residuals-{task}"] = residuals(gold, predicted, name=task)
    return drawn


def _can_draw() -> bool:
    try:
        require_matplotlib()
    except MissingExtraError:
        return False
    return True
