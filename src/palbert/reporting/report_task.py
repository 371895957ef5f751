"""What a report says about one task: scores with intervals, plots, and the worst errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from palbert.inference.results import TaskResult
from palbert.metrics import METRICS, ClassScores, Values, confusion_matrix, per_class
from palbert.reporting import plots
from palbert.reporting.bootstrap import bounds, distribution
from palbert.reporting.page import Plot, plot
from palbert.reporting.wording import Score, class_names, number, percent, plural, signed, task_summary

Resampled = dict[str, NDArray[np.float64]]
"""The value of each metric on every bootstrap resample."""
WORST = 20
"""How many errors a task shows."""
CLIP = 360
"""Letters of a text shown before it folds."""


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
class ErrorRow:
    """One wrong row, ready to read."""

    identifier: str
    texts: list[tuple[str, str]]
    """Each text as what is shown and what is folded away."""
    gold: str
    predicted: str
    measure: str
    """The probability of the wrong class, or the error of a number."""


@dataclass(frozen=True)
class TaskSection:
    """Everything the report shows of one task."""

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
    wrong: int
    """Wrong rows in all; of numbers, every row that is not exactly right."""
    resampled: NDArray[np.float64] | None = field(repr=False)
    """The main metric on every resample."""


def resample_scores(result: TaskResult) -> Resampled:
    """Return every metric of a result on bootstrap resamples of its rows."""
    return {
        name: distribution(result.gold, [result.predicted], METRICS[name])[0]
        for name in result.scores
        if name in METRICS and len(result.gold)
    }


def task_section(
    result: TaskResult,
    *,
    anchor: str,
    resampled: Resampled,
    baselines: Mapping[str, Mapping[str, float]],
    train_labels: Values | None,
) -> TaskSection:
    """Gather what the report shows of one task."""
    scores = [_score(name, value, resampled.get(name)) for name, value in result.scores.items()]
    main = next(score for score in scores if score.metric == result.metric)
    own = {name: values[result.task] for name, values in baselines.items() if result.task in values}
    return TaskSection(
        result=result,
        anchor=anchor,
        main=main,
        scores=scores,
        baselines=own,
        gain=min((main.gain_over(value) for value in own.values()), default=None),
        strip=_strip(main, own),
        summary=task_summary(result, main, own),
        plots=_plots(result, train_labels),
        class_scores=_class_scores(result),
        errors=_worst_errors(result),
        wrong=int(np.count_nonzero(result.gold != result.predicted)),
        resampled=resampled.get(result.metric),
    )


def _score(name: str, value: float, values: NDArray[np.float64] | None) -> Score:
    return Score(name, value) if values is None else Score(name, value, *bounds(values, value))


def _strip(main: Score, baselines: Mapping[str, float]) -> Strip | None:
    if main.metric not in METRICS or main.low is None or main.high is None:
        return None
    start, end = METRICS[main.metric].range
    if not np.isfinite(end):
        return None
    # Most correlations are positive: half the line would be empty.
    start = start if min(main.low, *baselines.values(), 0.0) < 0.0 else 0.0

    def place(value: float) -> float:
        return 100.0 * (value - start) / (end - start)

    marks = [place(value) for value in baselines.values()]
    return Strip(number(start, 0), place(main.value), place(main.low), place(main.high), marks)


def _plots(result: TaskResult, train_labels: Values | None) -> list[Plot]:
    name = f"{result.task} ({result.split})"
    labels: dict[str, Values] = {} if train_labels is None else {"train": train_labels}
    labels |= {result.split: result.gold, "predicted": result.predicted}
    if result.target == "number":
        return _number_plots(result, labels, name=name)
    classes = class_names(result)
    matrix = confusion_matrix(result.gold, result.predicted, classes=len(classes))
    caption = "Gold class down, predicted class across. Shade and percentages are shares of the gold class."
    shares = "Labels in the data and as predicted, as shares of each set."
    return [
        *plot(caption, plots.confusion_matrix, matrix, classes, name=name),
        *plot(shares, plots.label_distribution, labels, classes=classes, name=name),
    ]


def _number_plots(result: TaskResult, labels: Mapping[str, Values], *, name: str) -> list[Plot]:
    equal = "Each dot is a row; on the dashed line the prediction equals the gold number." + _sampled(result)
    bands = "Errors: how many of each size, and where on the scale. The line is the mean error in ten bands."
    shares = "Gold numbers and predictions, as shares of each set."
    return [
        *plot(equal, plots.similarity_scatter, result.gold, result.predicted, name=name),
        *plot(bands, plots.residuals, result.gold, result.predicted, name=name),
        *plot(shares, plots.label_distribution, labels, name=name),
    ]


def _sampled(result: TaskResult) -> str:
    if len(result.gold) <= plots.MOST_POINTS:
        return ""
    return f" {plots.MOST_POINTS:,} of {plural(len(result.gold), 'row')} shown."


def _class_scores(result: TaskResult) -> list[tuple[str, ClassScores]]:
    if result.target == "number":
        return []
    names = class_names(result)
    return list(zip(names, per_class(result.gold, result.predicted, classes=len(names)), strict=True))


def _worst_errors(result: TaskResult) -> list[ErrorRow]:
    wrong = np.flatnonzero(result.gold != result.predicted)
    if result.target == "number":
        errors = np.asarray(result.predicted - result.gold, dtype=np.float64)
        worst = wrong[np.argsort(-np.abs(errors[wrong]), kind="stable")]
        return [_number_error(result, int(row), float(errors[row])) for row in worst[:WORST]]
    certainty = _certainty(result)
    worst = wrong if certainty is None else wrong[np.argsort(-certainty[wrong], kind="stable")]
    return [
        _class_error(result, int(row), "–" if certainty is None else percent(float(certainty[row])))
        for row in worst[:WORST]
    ]


def _number_error(result: TaskResult, row: int, error: float) -> ErrorRow:
    gold, predicted = float(result.gold[row]), float(result.predicted[row])
    return _error_row(result, row, number(gold, 2), number(predicted, 2), signed(error, 2))


def _class_error(result: TaskResult, row: int, measure: str) -> ErrorRow:
    names = class_names(result)
    return _error_row(result, row, names[int(result.gold[row])], names[int(result.predicted[row])], measure)


def _certainty(result: TaskResult) -> NDArray[np.float64] | None:
    if result.probabilities is None:
        return None
    columns = result.predicted.astype(np.intp)[:, None]
    return np.take_along_axis(result.probabilities, columns, axis=1)[:, 0]


def _error_row(result: TaskResult, row: int, gold: str, predicted: str, measure: str) -> ErrorRow:
    texts = [_clipped(text) for text in result.texts[row]]
    return ErrorRow(result.ids[row], texts, gold, predicted, measure)


def _clipped(text: str) -> tuple[str, str]:
    if len(text) <= CLIP * 1.2:  # folding a few words away would cost more room than it saves
        return text, ""
    head = text[:CLIP].rpartition(" ")[0] or text[:CLIP]
    return head, text[len(head) :]
