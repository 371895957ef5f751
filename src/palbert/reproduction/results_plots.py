"""Plots of the results page: training losses and scores of several rows, and the labels and predictions of one row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from palbert.errors import MissingExtraError
from palbert.registry import PANELS
from palbert.reporting.plots import label_distribution, loss_curves, seed_scores
from palbert.reporting.svg import require_matplotlib, standalone
from palbert.reproduction.claims import Claims
from palbert.reproduction.row_results import ResultsByRow, RowResult, scores
from palbert.runtime.files import write_text


def plot_sections(claims: Claims, rows: ResultsByRow, page: Path, setting: str) -> list[str]:
    """Draw the plots whose rows were run into images/ next to the page; nothing without matplotlib.

    Score plots show every seed, the others the first one.

    Args:
        claims: The file of claims, which names the plots.
        rows: The results of one encoder and data.
        page: The page that shows the plots.
        setting: The encoder and data, for the names of the files.
    """
    try:
        require_matplotlib()
    except MissingExtraError:
        return []
    first = {row: results[0] for row, results in rows.items()}
    drawn: list[tuple[str, str, dict[str, str]]] = []
    for name, curves in claims.curves.items():
        if first.keys() >= set(curves.rows):
            drawn.append((name, curves.text, curve_plots([first[row] for row in curves.rows], curves.tasks)))
    for name, each in claims.scores.items():
        if first.keys() >= set(each.rows):
            drawn.append((name, each.text, score_plot([rows[row] for row in each.rows], each.metrics)))
    for name, labels in claims.labels.items():
        if labels.row in first:
            drawn.append((name, labels.text, label_plot(first[labels.row], labels.task)))
    for name, answers in claims.answers.items():
        if answers.row in first:
            drawn.append((name, answers.text, answer_plots(first[answers.row])))
    prefix = f"{page.stem}-" + re.sub(r"[^a-z0-9]+", "-", setting.lower()).strip("-")
    return [_write_figures(text, f"{prefix}-{name}", plots, page) for name, text, plots in drawn if plots]


def _write_figures(title: str, prefix: str, drawings: Mapping[str, str], page: Path) -> str:
    lines = [f"### {title}", ""]
    for name, svg in drawings.items():
        file = page.parent / "images" / f"{prefix}-{name}.svg"
        write_text(file, standalone(svg))
        lines.append(f"![{name.replace('-', ' ')}](images/{file.name})")
    return "\n".join([*lines, ""])


def curve_plots(results: Sequence[RowResult], tasks: Sequence[str]) -> dict[str, str]:
    """Draw the training losses of several rows, one plot for each task that has any."""
    drawn = {}
    for task in tasks:
        losses = {
            str(result["label"]): tuple(zip(*result["losses"][task], strict=True))
            for result in results
            if result["losses"].get(task)
        }
        if losses:
            drawn[f"loss-{task}"] = loss_curves({label: (points[0], points[1]) for label, points in losses.items()})
    return drawn


def score_plot(rows: Sequence[Sequence[RowResult]], metrics: Sequence[str]) -> dict[str, str]:
    """Draw the scores of every seed of several rows; nothing if a row lacks one of the metrics."""
    found = {metric: {str(row[0]["label"]): scores(row, metric) for row in rows} for metric in metrics}
    complete = all(values for by_row in found.values() for values in by_row.values())
    return {"scores": seed_scores(found)} if complete else {}


def label_plot(result: RowResult, task: str) -> dict[str, str]:
    """Draw the label distribution of a task in its training sets and in dev; nothing if the task has no classes."""
    counts_by_set = result["labels"].get(task)
    if not counts_by_set:
        return {}
    condensed = [result.get(panels.section, {}).get(task) for panels in PANELS.values()]
    classes = next((each["classes"] for each in condensed if each), None)
    if classes is None:  # a target whose panels keep nothing
        return {}
    splits = {name: np.repeat(np.arange(len(classes)), counts) for name, counts in counts_by_set.items()}
    return {f"labels-{task}": label_distribution(splits, classes=classes, name=task)}


def answer_plots(result: RowResult) -> dict[str, str]:
    """Draw the predictions of every task, as the panels of its target condensed them."""
    drawn: dict[str, str] = {}
    for section, panels in {panels.section: panels for panels in PANELS.values()}.items():
        for task, condensed in result.get(section, {}).items():
            drawn |= panels.condensed_plots(condensed, task=task)
    return drawn
