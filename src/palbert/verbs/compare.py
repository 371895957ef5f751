"""Compare: runs on the same rows, by paired bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palbert.errors import DataError
from palbert.metrics import find_metric
from palbert.recipe.load import load_run_recipe
from palbert.recipe.schema import Recipe
from palbert.registry.trust import trusting
from palbert.reporting.bootstrap import PairedDifference, paired
from palbert.reporting.display import Table, comparison_table
from palbert.reporting.predictions import read_predictions
from palbert.runtime.files import AnyPath
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task


@dataclass(frozen=True)
class Comparison:
    """One run compared with the first, on one task."""

    task: str
    metric: str
    run: str
    score: float
    reference: str
    reference_score: float
    difference: PairedDifference


class Comparisons(list[Comparison]):
    """Comparisons with one run, shown as a table."""

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        return comparison_table(self, self[0].reference if self else "")


def compare(runs: Sequence[AnyPath], *, split: str = "dev", trust: bool = False) -> Comparisons:
    """Compare every run with the first one, on all tasks that both have.

    With `trust`, code from outside palbert that the runs name, such as a metric, may be imported.
    """
    with trusting(trust):
        return _compare(runs, split)


def _compare(runs: Sequence[AnyPath], split: str) -> Comparisons:
    if len(runs) < 2:
        raise DataError("Expected two or more runs to compare, found fewer.", hint="palbert compare runs/a runs/b")
    first, *others = [RunFolder(Path(run)) for run in runs]
    for folder in (first, *others):
        if not folder.path.is_dir():
            raise DataError(f"{folder.path}: no such folder.", hint="Give the folders of runs.")
        if not folder.predictions.is_dir():
            raise DataError(
                f"{folder.path}: no predictions here.", hint=f"Make them with: palbert evaluate {folder.path}"
            )
    reference = load_run_recipe(first.recipe)
    comparisons = Comparisons()
    for other in others:
        recipe = load_run_recipe(other.recipe)
        shared = [name for name in reference.tasks if name in recipe.tasks]
        if not shared:
            raise DataError(f"{first.path} and {other.path} have no task in common.")
        for name in shared:
            if recipe.tasks[name].target != reference.tasks[name].target:
                raise DataError(
                    f"{first.path} and {other.path} have different answers for '{name}': "
                    f"{_answers(reference.tasks[name])} and {_answers(recipe.tasks[name])}.",
                    hint="A comparison needs the same target and classes; list them in both recipes.",
                )
            comparisons.append(_compare_task(name, reference, first, other, split))
    return comparisons


def _answers(task: Task) -> str:
    """Describe what a task answers."""
    classes = ", ".join(task.target.classes)
    return f"{task.target.name} ({classes})" if classes else task.target.name


def _compare_task(name: str, reference: Recipe, first: RunFolder, other: RunFolder, split: str) -> Comparison:
    task = reference.tasks[name]
    read = []
    for folder in (first, other):
        path = folder.predictions / f"{name}-{split}.csv"
        if not path.is_file():
            raise DataError(
                f"{path}: no such file.", hint=f"Make it with: palbert evaluate {folder.path} --split {split}"
            )
        read.append(read_predictions(path, target=task.target))
    one, two = read
    if one.ids != two.ids or one.texts != two.texts or not np.array_equal(one.gold, two.gold):
        raise DataError(
            f"{first.path} and {other.path} were scored on different {name} rows; a paired comparison needs the same.",
            hint="Evaluate both on the same files.",
        )
    metric = find_metric(task.metric)
    before, after = (metric.compared(each.predicted, each.probabilities) for each in read)
    return Comparison(
        task=name,
        metric=task.metric,
        run=str(other.path),
        score=metric(one.gold, after),
        reference=str(first.path),
        reference_score=metric(one.gold, before),
        difference=paired(one.gold, after, before, metric),
    )
