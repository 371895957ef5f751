"""Failings: where a run's predictions are wrong, from the predictions that its evaluation has written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palbert.inference.results import TaskResult
from palbert.reporting.card import Failings, Slice
from palbert.reporting.panels import panels_of
from palbert.reporting.predictions import read_predictions
from palbert.reporting.report_task import task_summary
from palbert.reporting.wording import Score, plural
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task

FEWEST = 30
"""Rows below which thirds by length say nothing."""
MOST_CLASSES = 20
"""Classes in the table: of more, the ones with the lowest F1."""


def failings_of(
    place: RunFolder,
    task: Task,
    scores: Sequence[Score],
    baselines: Mapping[str, float],
    *,
    split: str,
    examples: int = 0,
) -> Failings | None:
    """Return where a task's predictions are wrong; None if they are not there any more.

    Args:
        place: The folder with the predictions.
        task: The task.
        scores: Its scores, the main one first.
        baselines: The main metric, by baseline.
        split: Which rows were predicted.
        examples: How many of the worst errors to quote.
    """
    file = place.predictions / f"{task.name}-{split}.csv"
    if not file.is_file():
        return None
    read = read_predictions(file, target=task.target)
    if not len(read.gold):
        return None
    result = TaskResult(
        task=task.name,
        split=split,
        target=task.target,
        metric=scores[0].metric,
        scores={score.metric: score.value for score in scores},
        ids=read.ids,
        texts=read.texts,
        gold=read.gold,
        predicted=read.predicted,
        probabilities=read.probabilities,
    )
    panels = panels_of(task.target)
    classes = panels.class_scores(result)
    if len(classes) > MOST_CLASSES:
        classes = sorted(classes, key=lambda each: each[1].f1)[:MOST_CLASSES]
    measure, values = _wrongness(result)
    return Failings(
        summary=task_summary(result, scores[0], baselines),
        classes=classes,
        slices=_by_length(read.texts, values),
        slice_measure=measure,
        measure=panels.measure,
        examples=panels.errors(result)[:examples],
    )


def _wrongness(result: TaskResult) -> tuple[str, NDArray[np.float64]]:
    """Return what can be averaged over rows, and its value for each: right or wrong, or how far off."""
    if result.target.classes:
        return "share right", (~result.wrong).astype(np.float64)
    off = np.abs(np.asarray(result.predicted - result.gold, dtype=np.float64))
    return "mean absolute error", off.reshape(len(off), -1).mean(axis=1)


def _by_length(texts: Sequence[tuple[str, ...]], values: NDArray[np.float64]) -> list[Slice]:
    """Return the shortest, middle and longest third of the rows; nothing for few rows or equal lengths."""
    if len(texts) < FEWEST:
        return []
    lengths = np.array([sum(len(text.split()) for text in row) for row in texts])
    low, high = np.quantile(lengths, [1 / 3, 2 / 3], method="lower")  # lengths that rows have
    parts = {
        f"up to {plural(int(low), 'word')}": lengths <= low,
        f"up to {plural(int(high), 'word')}": (lengths > low) & (lengths <= high),
        "longer": lengths > high,
    }
    if not all(rows.any() for rows in parts.values()):
        return []
    return [Slice(name, int(rows.sum()), float(values[rows].mean())) for name, rows in parts.items()]
