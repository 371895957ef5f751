"""Wording: numbers and results as a reader likes to see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from palbert.inference.results import TaskResult
from palbert.metrics import METRICS, confusion_matrix

THIN_SPACE = "\u202f"
"""Narrow and unbreakable, between a number and its unit."""

_BASELINES = {
    ("majority / mean", "number"): "answering the mean every time",
    ("majority / mean", "classes"): "answering the most frequent class every time",
    ("majority / mean", "binary"): "answering the most frequent class every time",
}


@dataclass(frozen=True)
class Score:
    """One metric of one task; `low` and `high` bound its bootstrap interval where there is one."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better; assumed of a metric that palbert does not know."""
        return self.metric not in METRICS or METRICS[self.metric].higher_is_better

    def gain_over(self, other: float) -> float:
        """Return by how much this score is better than `other`; negative if it is worse."""
        return self.value - other if self.higher_is_better else other - self.value

    def clearly_beats(self, other: float) -> bool:
        """Tell whether the whole interval is better than `other`."""
        worst = self.low if self.higher_is_better else self.high
        return worst is not None and (worst > other if self.higher_is_better else worst < other)


def number(value: float | None, digits: int = 3) -> str:
    """Write a score, with a true minus sign; a missing one is a dash."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """Write a difference with its sign; a missing one is a dash."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def percent(share: float, digits: int = 1) -> str:
    """Write a share of 1 as a percentage; a share too small for its digits is not written as none."""
    smallest = 10.0**-digits
    if 0.0 < 100.0 * share < smallest / 2.0:
        return f"<{THIN_SPACE}{smallest:.{digits}f}{THIN_SPACE}%"
    return f"{100.0 * share:.{digits}f}{THIN_SPACE}%".replace("-", "−")


def count(value: float) -> str:
    """Write a whole number with thousands separated."""
    return f"{round(value):,}"


def plural(value: int, noun: str) -> str:
    """Write a count with its noun, as in "1 row" and "1,000 rows"."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def duration(seconds: float) -> str:
    """Write a time in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f}{THIN_SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{THIN_SPACE}min {rest:02d}{THIN_SPACE}s"
    return f"{minutes // 60}{THIN_SPACE}h {minutes % 60:02d}{THIN_SPACE}min"


def size(value: float) -> str:
    """Write a number of parameters in thousands or millions."""
    if value >= 1e6:
        return f"{value / 1e6:.1f}{THIN_SPACE}M"
    return f"{value / 1e3:.1f}{THIN_SPACE}k" if value >= 1e3 else f"{value:.0f}"


def class_names(result: TaskResult) -> tuple[str, ...]:
    """Return the names of a task's classes, or their indices where it names none."""
    if result.classes or result.target == "number":
        return result.classes
    highest = max(int(result.gold.max(initial=1)), int(result.predicted.max(initial=1)))
    return tuple(str(index) for index in range(highest + 1))


def task_summary(result: TaskResult, main: Score, baselines: Mapping[str, float]) -> str:
    """Say in a few plain sentences how good a task's predictions are."""
    opening = _numbers_opening(result, main) if result.target == "number" else _classes_opening(result, main)
    parts = [opening, _against_baselines(result, main, baselines)]
    if result.target == "binary":
        parts.append(_positive_detail(result))
    elif result.target == "classes":
        parts.append(_common_mistake(result))
    return " ".join(part for part in parts if part)


def _range_text(main: Score, *, as_percent: bool = False) -> str:
    if main.low is None or main.high is None:
        return ""
    if as_percent:
        return f"{100 * main.low:.1f} to {percent(main.high)}"
    return f"{number(main.low)} to {number(main.high)}"


def _classes_opening(result: TaskResult, main: Score) -> str:
    right = int(np.count_nonzero(result.gold == result.predicted))
    text = f"{right:,} of {plural(len(result.gold), 'row')} right ({percent(right / max(len(result.gold), 1))})"
    if main.metric != "accuracy":
        between = _range_text(main)
        return f"{text}; {main.metric} {number(main.value)}" + (f", likely {between}." if between else ".")
    between = _range_text(main, as_percent=True)
    return f"{text}; on other rows of this kind, {between} is likely." if between else f"{text}."


def _numbers_opening(result: TaskResult, main: Score) -> str:
    errors = np.asarray(result.predicted - result.gold, dtype=np.float64)
    between = _range_text(main)
    value = f"{main.metric} {number(main.value)}" + (f", likely {between}" if between else "")
    low, high = float(result.gold.min()), float(result.gold.max())
    offset = f"They are {np.abs(errors).mean():.2f} off on average, where gold runs from {low:g} to {high:g}"
    lean = float(errors.mean())
    # A lean below a hundredth of the scale would read as a finding and is none.
    if abs(lean) < 0.01 * max(high - low, 1e-12):
        return f"{_closeness(main)} ({value}). {offset}, without leaning high or low."
    side = "high" if lean > 0 else "low"
    return f"{_closeness(main)} ({value}). {offset}, and lean {abs(lean):.2f} too {side}."


def _closeness(main: Score) -> str:
    if main.metric not in {"pearson", "spearman"}:
        return "Predictions were compared with the gold numbers"
    steps = (
        (0.9, "follow the gold numbers very closely"),
        (0.8, "follow the gold numbers closely"),
        (0.6, "follow the gold numbers, with scatter"),
        (0.3, "follow the gold numbers loosely"),
    )
    found = (words for limit, words in steps if main.value >= limit)
    return f"Predictions {next(found, 'hardly follow the gold numbers')}"


def _against_baselines(result: TaskResult, main: Score, baselines: Mapping[str, float]) -> str:
    if not baselines:
        return ""
    name, value = min(baselines.items(), key=lambda item: main.gain_over(item[1]))
    what = _BASELINES.get((name, result.target), f"the baseline “{name}”")
    if name == "untrained heads":
        what = "the same encoder with untrained heads"
    reached = percent(value) if main.metric == "accuracy" else number(value)
    if main.gain_over(value) <= 0:
        return f"This is no better than {what}, which reaches {reached}."
    if main.low is not None and not main.clearly_beats(value):
        return f"This is not clearly better than {what}, which reaches {reached}."
    return f"The best baseline, {what}, reaches {reached}."


def _positive_detail(result: TaskResult) -> str:
    name = class_names(result)[1]
    positives, guesses = int(np.sum(result.gold == 1)), int(np.sum(result.predicted == 1))
    hits = int(np.sum((result.gold == 1) & (result.predicted == 1)))
    if not positives or not guesses:
        missing = "No row is" if not positives else "No row was called"
        return f"{missing} “{name}”."
    found, right = percent(hits / positives, 0), percent(hits / guesses, 0)
    return f"It finds {found} of the “{name}” rows, and {right} of what it calls “{name}” is."


def _common_mistake(result: TaskResult) -> str:
    names = class_names(result)
    matrix = confusion_matrix(result.gold, result.predicted, classes=len(names))
    np.fill_diagonal(matrix, 0)
    if not matrix.any():
        return "There is no mistake among them."
    gold, predicted = np.unravel_index(int(matrix.argmax()), matrix.shape)
    rows = plural(int(matrix.max()), "row")
    return f"Its most common mistake: “{names[gold]}” taken for “{names[predicted]}” ({rows})."
