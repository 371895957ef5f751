"""Combine the scores of several tasks into one overall score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from palbert.errors import PalbertError
from palbert.metrics.find import find_metric

Formula = Literal["scaled-mean", "mean"]


def overall(scores: Mapping[str, tuple[str, float]], formula: Formula = "scaled-mean") -> float:
    """Combine one score per task into one number.

    Args:
        scores: Metric name and value, by task.
        formula: "scaled-mean" maps each value to 0…1 first (see `Metric.scaled`); "mean" takes it as it is.
    """
    _check_formula({task: name for task, (name, _) in scores.items()}, formula)
    values = [find_metric(name).scaled(value) if formula == "scaled-mean" else value for name, value in scores.values()]
    return float(sum(values) / len(values))


def formula_text(metrics: Mapping[str, str], formula: Formula = "scaled-mean") -> str:
    """Write the overall score of these tasks (task: metric name) as a formula."""
    _check_formula(metrics, formula)
    terms = [
        find_metric(name).scaled_text(f"{task}.{name}") if formula == "scaled-mean" else f"{task}.{name}"
        for task, name in metrics.items()
    ]
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)}) / {len(terms)}"


def _check_formula(metrics: Mapping[str, str], formula: Formula) -> None:
    if not metrics:
        raise PalbertError("The overall score needs at least one task, found none.")
    for task, name in metrics.items():
        if formula == "mean" and not find_metric(name).higher_is_better:
            raise PalbertError(
                f"The formula 'mean' cannot hold {task}.{name}, where lower is better.",
                hint="Use the formula 'scaled-mean', or another metric for the task.",
            )
