"""The report of a run: one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from palbert.inference.results import TaskResult
from palbert.metrics import Formula, Values, find_metric, is_metric, overall
from palbert.reporting import plots
from palbert.reporting.assessment import Assessment
from palbert.reporting.bias import BEGIN, END, bias_section
from palbert.reporting.bootstrap import bounds
from palbert.reporting.page import Plot, plot, render
from palbert.reporting.report_task import Resampled, TaskSection, task_section
from palbert.reporting.word_marks import ScoredWords
from palbert.reporting.wording import count, number, plural

Record = Mapping[str, Any]
"""One line of metrics.jsonl; its "kind" is "train", "epoch", "evaluation" or "end"."""

_SHOWN_ELSEWHERE = {"overall", "formula", "encoder", "seed", "tasks", "seconds", "parameters", "split"}


@dataclass(frozen=True)
class RunReport:
    """Everything that the report of a run shows."""

    title: str
    summary: dict[str, Any]
    """The content of report.json."""
    results: list[TaskResult]
    formula: Formula | None = None
    """How the overall score is computed from the results; None if it is not."""
    assessments: Mapping[str, Assessment] = field(default_factory=dict)
    """How far the probabilities of each task can be trusted; nothing is said of tasks that are not here."""
    resampled: dict[str, Resampled] = field(default_factory=dict)
    """The scores on bootstrap resamples, by task; scores are shown without intervals where it has none."""
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    """The main metric of every task, by baseline and task."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """The lines of metrics.jsonl."""
    train_labels: dict[str, Values] = field(default_factory=dict)
    """Labels of the training rows, by set."""
    recipe_text: str = ""
    """The resolved recipe, as TOML."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know about the scores, one sentence each."""
    lengths: dict[str, Values] = field(default_factory=dict)
    """Token lengths of the training rows before truncation, by set."""
    words: Mapping[str, Mapping[int, Sequence[ScoredWords]]] = field(default_factory=dict)
    """The scored words of wrong rows, by task and row; errors without them are shown without colours."""
    max_lengths: dict[str, int] = field(default_factory=dict)
    """The length at which rows are truncated, in tokens, by set."""
    bias: Mapping[str, Any] | None = None
    """The summary of an audit of bias, if there is one."""


@dataclass(frozen=True)
class _OverallScore:
    """The overall score, and the same formula applied to the baselines."""

    value: float | None
    low: float | None = None
    high: float | None = None
    baselines: dict[str, float] = field(default_factory=dict)

    @property
    def gain(self) -> float | None:
        """How much better the score is than the best baseline."""
        if self.value is None or not self.baselines:
            return None
        return self.value - max(self.baselines.values())


@dataclass(frozen=True)
class _DataRow:
    """One task or extra training set in the table of the data section."""

    task: str
    train: int | None
    evaluated: int | None
    median: float | None = None
    longest: int | None = None
    max_length: int | None = None
    truncated: float | None = None


def render_report(report: RunReport) -> str:
    """Render the report of a run as one HTML page that loads nothing from elsewhere."""
    sections = [
        task_section(
            result,
            anchor=f"task-{index}",
            resampled=report.resampled.get(result.task, {}),
            baselines=report.baselines,
            train_labels=report.train_labels.get(result.task),
            assessment=report.assessments.get(result.task),
            words=report.words.get(result.task),
        )
        for index, result in enumerate(report.results)
    ]
    return render(
        "report.html.j2",
        report=report,
        overall=_overall_score(report, sections),
        sections=sections,
        baseline_names=list(report.baselines),
        facts=_facts(report),
        learning=_learning_plots(report),
        learning_summary=_learning_summary(report.records),
        data=_data_rows(report),
        data_plots=_length_plots(report),
        bias_section=Markup(f"{BEGIN}{bias_section(report.bias)}{END}"),
    )


def _overall_score(report: RunReport, sections: Sequence[TaskSection]) -> _OverallScore:
    value = report.summary.get("overall")
    formula = report.formula
    if value is None or formula is None or not sections:
        return _OverallScore(value)
    metrics = {result.task: result.metric for result in report.results}
    baselines = {
        name: overall({task: (metric, values[task]) for task, metric in metrics.items()}, formula)
        for name, values in report.baselines.items()
        if values.keys() >= metrics.keys()
    }
    columns = [section.resampled for section in sections if section.resampled is not None]
    if len(columns) < len(sections):
        return _OverallScore(value, baselines=baselines)
    resampled = np.array(
        [
            overall(dict(zip(metrics, zip(metrics.values(), row, strict=True), strict=True)), formula)
            for row in zip(*columns, strict=True)
        ]
    )
    return _OverallScore(value, *bounds(resampled, value), baselines=baselines)


def _facts(report: RunReport) -> list[tuple[str, str]]:
    """Return the other short values of the summary, such as the device, with their names."""
    extra = {
        key: value
        for key, value in report.summary.items()
        if key not in _SHOWN_ELSEWHERE and isinstance(value, str | int | float)
    }
    return [
        (key.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value))
        for key, value in extra.items()
    ]


def _of_kind(records: Sequence[Record], kind: str) -> list[Record]:
    return [record for record in records if record.get("kind") == kind]


def _series(report: RunReport, group: str) -> dict[str, tuple[list[float], list[float]]]:
    """Return the steps and values of one group of the training records; missing values are NaN."""
    series: dict[str, tuple[list[float], list[float]]] = {}
    for record in _of_kind(report.records, "train"):
        for name, value in record.get(group, {}).items():
            steps, values = series.setdefault(name, ([], []))
            steps.append(record["step"])
            values.append(math.nan if value is None else value)
    return series


def _learning_plots(report: RunReport) -> dict[str, list[Plot]]:
    losses = _series(report, "losses")
    tasks = _tasks_of(report, losses)
    drawn = []
    for task in tasks:
        if task in losses:
            drawn += plot(task, plots.loss_curves, {task: losses[task]}, tasks=tasks)
    return {"overview": [*_score_plot(report), *_count_plot(report), *_cosine_plot(report)], "losses": drawn}


def _cosine_plot(report: RunReport) -> list[Plot]:
    cosines = _series(report, "cosines")
    caption = "Cosine between the gradients of two tasks on the parameters they share; below 0 the tasks conflict."
    return plot(caption, plots.cosine_curves, cosines) if cosines else []


def _score_plot(report: RunReport) -> list[Plot]:
    evaluations = _of_kind(report.records, "evaluation")
    if not evaluations:
        return []
    main = {result.task: result.metric for result in report.results}
    scores: dict[str, list[float]] = {}
    for task in _tasks_of(report, {name for record in evaluations for name in record.get("tasks", {})}):
        metric = main.get(task) or next(iter(_first(evaluations, task)), "")
        values = [record.get("tasks", {}).get(task, {}).get(metric, math.nan) for record in evaluations]
        if is_metric(metric) and not find_metric(metric).bounded:
            values = [find_metric(metric).scaled(value) for value in values]
            metric = find_metric(metric).scaled_text(metric)
        scores[f"{task} {metric}"] = values
    totals = [math.nan if record.get("overall") is None else record["overall"] for record in evaluations]
    within = any(record["epoch"] % 1 for record in evaluations)
    when = "at each evaluation, by epochs of training" if within else "after each epoch"
    caption = f"Scores on dev {when}; 0 is before training. The best overall score is circled."
    epochs = [record["epoch"] for record in evaluations]
    return plot(caption, plots.score_curves, epochs, scores, overall=totals)


def _first(evaluations: Sequence[Record], task: str) -> Mapping[str, float]:
    found: Mapping[str, float] = next(
        record["tasks"][task] for record in evaluations if task in record.get("tasks", {})
    )
    return found


def _count_plot(report: RunReport) -> list[Plot]:
    epochs = _of_kind(report.records, "epoch")
    if not epochs:
        return []
    counts = {}
    for side in ("planned", "drawn"):
        names = _tasks_of(report, {task for record in epochs for task in record.get(side, {})})
        counts[side] = {
            task: [record.get(side, {}).get(task, math.nan) for record in epochs]
            for task in names
            if any(task in record.get(side, {}) for record in epochs)
        }
    caption = "Batches of each set in each epoch: circles as planned by the sampler, dots as drawn."
    numbers = [record["epoch"] for record in epochs]
    return plot(caption, plots.task_counts, numbers, counts["planned"], counts["drawn"])


def _tasks_of(report: RunReport, found: Mapping[str, Any] | set[str]) -> list[str]:
    """Return names in the order of the results, others after them, so that each keeps its colour in all plots."""
    known = [result.task for result in report.results]
    return [task for task in known if task in found] + sorted(set(found) - set(known))


def _learning_summary(records: Sequence[Record]) -> str:
    train, evaluations = _of_kind(records, "train"), _of_kind(records, "evaluation")
    parts = []
    if train:
        speeds = [record["tokens_per_second"] for record in train if "tokens_per_second" in record]
        speed = f", {count(float(np.median(speeds)))} tokens per second (median)" if speeds else ""
        parts.append(f"{plural(int(train[-1]['step']), 'step')}{speed}.")
    totals = [(record["overall"], record["epoch"]) for record in evaluations if record.get("overall") is not None]
    if totals:
        best, epoch = max(totals, key=lambda each: each[0])  # of equal scores the first, as circled in the plot
        when = "before training" if epoch == 0 else f"after epoch {epoch:.4g}"
        parts.append(f"The best overall score, {number(best)}, came {when}.")
    parts += [f"The run finished early: {record['reason']}" for record in _of_kind(records, "end")]
    return " ".join(parts)


def _data_rows(report: RunReport) -> list[_DataRow]:
    evaluated = {result.task: len(result.gold) for result in report.results}
    rows = []
    for task in _tasks_of(report, {*evaluated, *report.train_labels, *report.lengths}):
        labels, lengths = report.train_labels.get(task), report.lengths.get(task)
        counted = report.summary.get("rows", {}).get(task, {}).get("train")  # triplets have no labels to count
        train = len(labels) if labels is not None else counted
        limit = report.max_lengths.get(task)
        if lengths is None or len(lengths) == 0:
            rows.append(_DataRow(task, train, evaluated.get(task), max_length=limit))
            continue
        cut = None if limit is None else float(np.mean(lengths > limit))
        middle, longest = float(np.median(lengths)), int(lengths.max())
        rows.append(_DataRow(task, train, evaluated.get(task), middle, longest, limit, cut))
    return rows


def _length_plots(report: RunReport) -> list[Plot]:
    drawn = []
    for task in _tasks_of(report, report.lengths):
        lengths = report.lengths[task]
        if len(lengths) and task in report.max_lengths:
            caption = f"Token lengths of {task}, train rows."
            limit = report.max_lengths[task]
            drawn += plot(caption, plots.length_histogram, lengths, max_length=limit, name=task, small=True)
    return drawn
