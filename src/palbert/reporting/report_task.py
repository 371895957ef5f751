"""What a report says about one task: scores with intervals, plots, and the worst errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from palbert.inference.results import TaskResult
from palbert.metrics import ClassScores, Values, find_metric, is_metric
from palbert.reporting import probability_plots
from palbert.reporting.assessment import Assessment
from palbert.reporting.bootstrap import bounds, distribution
from palbert.reporting.page import Plot, plot
from palbert.reporting.panels import ErrorRow, panels_of
from palbert.reporting.word_marks import ScoredWords, WordMark, mark_row
from palbert.reporting.wording import Score, number, percent

Resampled = dict[str, NDArray[np.float64]]
"""The value of each metric on every bootstrap resample."""


@dataclass(frozen=True)
class Strip:
    """Where a score, its interval and the baselines lie on a line, in percent of its width."""

    start: str
    """The number at the left end; the right end is 1."""
    value: float
    low: float
    high: float
    baselines: list[float]


@dataclass(frozen=True)
class TaskSection:
    """Everything that the report shows about one task."""

    result: TaskResult
    anchor: str
    main: Score
    scores: list[Score]
    baselines: dict[str, float]
    gain: float | None
    """How much better than the best baseline."""
    strip: Strip | None
    summary: str
    plots: list[Plot]
    class_scores: list[tuple[str, ClassScores]]
    errors: list[ErrorRow]
    errors_note: str
    """Which errors these are."""
    measure: str
    """What the last column of the errors shows."""
    marks: list[list[list[WordMark]]]
    """The words of each error's texts with their colours; an error without scores has none."""
    resampled: NDArray[np.float64] | None = field(repr=False)
    """The main metric on every resample."""
    assessment: Assessment | None = None
    """How far the probabilities can be trusted, where there are any."""
    probability_plots: list[Plot] = field(default_factory=list)


def resample_scores(result: TaskResult) -> Resampled:
    """Return every metric of a result on bootstrap resamples of its rows."""
    return {name: _resample(result, name) for name in result.scores if is_metric(name) and len(result.gold)}


def task_section(
    result: TaskResult,
    *,
    anchor: str,
    resampled: Resampled,
    baselines: Mapping[str, Mapping[str, float]],
    train_labels: Values | None,
    assessment: Assessment | None = None,
    words: Mapping[int, Sequence[ScoredWords]] | None = None,
) -> TaskSection:
    """Return what the report shows about one task."""
    panels = panels_of(result.target)
    scores = [_score(name, value, resampled.get(name)) for name, value in result.scores.items()]
    main = next(score for score in scores if score.metric == result.metric)
    own = {name: values[result.task] for name, values in baselines.items() if result.task in values}
    errors = panels.errors(result)
    return TaskSection(
        result=result,
        anchor=anchor,
        main=main,
        scores=scores,
        baselines=own,
        gain=min((main.gain_over(value) for value in own.values()), default=None),
        strip=_strip(main, own),
        summary=task_summary(result, main, own),
        plots=panels.plots(result, _labels(result, train_labels)),
        class_scores=panels.class_scores(result),
        errors=errors,
        errors_note=panels.errors_note(len(errors), int(result.wrong.sum())),
        measure=panels.measure,
        marks=[_marks(error, words or {}) for error in errors],
        resampled=resampled.get(result.metric),
        assessment=assessment,
        probability_plots=[] if assessment is None else _probability_plots(result, assessment),
    )


def _marks(error: ErrorRow, words: Mapping[int, Sequence[ScoredWords]]) -> list[list[WordMark]]:
    """Return the coloured words of an error, as far as its texts are shown before they are unfolded."""
    if error.row is None or error.row not in words:
        return []
    return mark_row([shown for shown, _ in error.texts], words[error.row])


def _probability_plots(result: TaskResult, assessment: Assessment) -> list[Plot]:
    """Draw the reliability diagram and accuracy by coverage."""
    name = f"{result.task} ({result.split})"
    kinds = {each.name: each.reliability for each in (assessment.before, assessment.after) if each is not None}
    held = "How often predictions with a given probability are right; on the dashed line they are as often as they say."
    answered = "Right answers if only the surest rows are answered; at the right end all are."
    return [
        *plot(held, probability_plots.reliability_diagram, kinds, name=name),
        *plot(answered, probability_plots.coverage_curve, assessment.coverage, assessment.right, name=name),
    ]


def _resample(result: TaskResult, name: str) -> NDArray[np.float64]:
    metric = find_metric(name)
    values = distribution(result.gold, [metric.compared(result.predicted, result.probabilities)], metric)
    first: NDArray[np.float64] = values[0]
    return first


def _score(name: str, value: float, values: NDArray[np.float64] | None) -> Score:
    return Score(name, value) if values is None else Score(name, value, *bounds(values, value))


def _strip(main: Score, baselines: Mapping[str, float]) -> Strip | None:
    if not is_metric(main.metric) or main.low is None or main.high is None:
        return None
    if not find_metric(main.metric).bounded:
        return None
    start, end = find_metric(main.metric).range
    # Most correlations are positive: half the line would be empty.
    start = start if min(main.low, *baselines.values(), 0.0) < 0.0 else 0.0

    def place(value: float) -> float:
        return 100.0 * (value - start) / (end - start)

    marks = [place(value) for value in baselines.values()]
    return Strip(number(start, 0), place(main.value), place(main.low), place(main.high), marks)


def _labels(result: TaskResult, train_labels: Values | None) -> dict[str, Values]:
    train: dict[str, Values] = {} if train_labels is None else {"train": train_labels}
    return {**train, result.split: result.gold, "predicted": result.predicted}


def task_summary(result: TaskResult, main: Score, baselines: Mapping[str, float]) -> str:
    """Say in a few plain sentences how good a task's predictions are."""
    panels = panels_of(result.target)
    sentences = [panels.opening(result, main), _against_baselines(result, main, baselines), panels.detail(result)]
    return " ".join(sentence for sentence in sentences if sentence)


def _against_baselines(result: TaskResult, main: Score, baselines: Mapping[str, float]) -> str:
    if not baselines:
        return ""
    name, value = min(baselines.items(), key=lambda item: main.gain_over(item[1]))
    known = {
        "majority / mean": result.target.constant_answer,
        "untrained heads": "the same encoder with untrained heads",
        "linear probe": "a linear model on vectors of the untrained encoder",
        "cosine": "the plain cosine of the untrained encoder's vectors",
    }
    what = known.get(name, f"the baseline “{name}”")
    reached = percent(value) if main.metric == "accuracy" else number(value)
    if main.gain_over(value) <= 0:
        return f"This is no better than {what}, which reaches {reached}."
    if main.low is not None and not main.clearly_beats(value):
        return f"This is not clearly better than {what}, which reaches {reached}."
    return f"The best baseline, {what}, reaches {reached}."
