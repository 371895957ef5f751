"""Plots of a search, each as one inline SVG string; they need matplotlib (the extra `plots`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from palbert.reporting.marks import WIDTH, legend, score_tick, whole_ticks
from palbert.reporting.svg import GRID, INK, MUTED, SERIES, drawing, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Trial = Mapping[str, Any]
"""A trial of tune.json."""
Range = Mapping[str, Any]
"""A setting of the space: low, high and log, or choices."""
Point = tuple[float, float]

HEIGHT = 250.0
ROW = 60.0
"""Units between two settings."""


def history(trials: Sequence[Trial], *, fresh: float | None = None) -> str:
    """Draw the score of every trial and the best so far.

    Args:
        trials: All trials; those without a score are left out.
        fresh: The mean score of the best with fresh seeds.
    """
    with drawing(width=WIDTH, height=HEIGHT, label="Score of every trial, and the best so far") as picture:
        axes = picture.figure.subplots()
        complete = [trial for trial in trials if trial["state"] == "complete"]
        pruned = [trial for trial in trials if trial["state"] == "pruned" and trial["score"] is not None]
        axes.plot(*_points(complete), "o", color=SERIES[0], markersize=5, label="complete")
        if pruned:
            axes.plot(*_points(pruned), "o", color=MUTED, markersize=5, fillstyle="none", label="pruned")
        best = [max(trial["score"] for trial in complete[: end + 1]) for end in range(len(complete))]
        axes.step([trial["number"] for trial in complete], best, where="post", color=SERIES[1], label="best so far")
        if fresh is not None:
            axes.axhline(fresh, color=INK, linewidth=1.2, linestyle=(0, (4, 3)), label="best, fresh seeds")
        axes.set_xlabel("trial")
        axes.xaxis.set_major_locator(whole_ticks(9))
        axes.yaxis.set_major_formatter(score_tick)
        legend(picture.figure, axes)
    return picture.svg


def evaluation_curves(trials: Sequence[Trial], *, best: int) -> str:
    """Draw the scores of every trial by evaluation, with the best trial on top."""
    with drawing(width=WIDTH, height=HEIGHT, label="Scores of every trial by evaluation") as picture:
        axes = picture.figure.subplots()
        for trial in sorted(trials, key=lambda each: each["number"] == best):
            is_best, values = trial["number"] == best, trial["evaluations"]
            color = SERIES[1] if is_best else MUTED if trial["state"] == "pruned" else SERIES[0]
            axes.plot(
                range(1, len(values) + 1), values, color=color, alpha=1.0 if is_best else 0.4, marker="o",
                markersize=4 if is_best else 2.5, linewidth=2.4 if is_best else 1.1,
            )  # fmt: skip
        axes.set_xlabel("evaluation")
        axes.xaxis.set_major_locator(whole_ticks(9))
        axes.yaxis.set_major_formatter(score_tick)
    return picture.svg


def importances(found: Mapping[str, float]) -> str:
    """Draw how much each setting matters, the most important one on top."""
    ordered = sorted(found.items(), key=lambda item: item[1])
    with drawing(width=WIDTH, height=60 + 24 * len(ordered), label="Importance of the settings") as picture:
        axes = picture.figure.subplots()
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.barh([shorten(key, length=32) for key, _ in ordered], [value for _, value in ordered], color=SERIES[0])
        axes.set_xlim(left=0.0)
    return picture.svg


def parallel_coordinates(trials: Sequence[Trial], space: Mapping[str, Range], *, best: int) -> str:
    """Draw every complete trial as a line from setting to setting, down to its score: stronger lines are better trials.

    Args:
        trials: All trials.
        space: The settings, one row each.
        best: The number of the best trial, which has a colour of its own.
    """
    complete = sorted((trial for trial in trials if trial["state"] == "complete"), key=lambda trial: trial["score"])
    rows = list(space)
    scores = [trial["score"] for trial in complete]
    low, high = min(scores), max(scores)
    with drawing(width=WIDTH, height=90 + ROW * len(rows), label="Settings of all complete trials") as picture:
        axes = picture.figure.subplots()
        axes.grid(visible=False)
        for place, key in enumerate(rows):
            _row_axis(axes, place, key, space[key])
        _row_axis(axes, len(rows), "overall", {"low": low, "high": high})
        for rank, trial in enumerate(complete):
            line = [share(space[key], trial["parameters"][key]) for key in rows]
            line.append(share({"low": low, "high": high}, trial["score"]))
            is_best = trial["number"] == best
            axes.plot(
                line, range(len(line)), color=SERIES[1] if is_best else SERIES[0], linewidth=2.4 if is_best else 1.1,
                alpha=1.0 if is_best else 0.12 + 0.6 * (rank + 1) / len(complete), zorder=3 if is_best else 2,
            )  # fmt: skip
        axes.set(xlim=(-0.03, 1.03), ylim=(len(rows) + 0.45, -0.75))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines["bottom"].set_visible(False)
    return picture.svg


def _row_axis(axes: Axes, place: int, key: str, values: Range) -> None:
    """Draw the axis of one setting, with its name above and its ends below."""
    axes.plot([0, 1], [place, place], color=GRID, linewidth=1.0, zorder=1)
    axes.text(0.5, place - 0.12, shorten(key, length=44), ha="center", va="bottom", fontsize=8.5, zorder=4)
    choices = values.get("choices")
    ends = [f"{values['low']:.4g}", f"{values['high']:.4g}"] if choices is None else [str(each) for each in choices]
    for number, text in enumerate(ends):
        x = number / max(len(ends) - 1, 1)
        side = "left" if x == 0 else "right" if x == 1 else "center"
        shown = shorten(text, length=max(6, 60 // len(ends)))
        axes.text(x, place + 0.1, shown, ha=side, va="top", fontsize=7.5, color=MUTED, zorder=4)


def share(values: Range, value: Any) -> float:
    """Return where a value is in its range, from 0 to 1."""
    choices = values.get("choices")
    if choices is not None:
        return float(choices.index(value)) / max(len(choices) - 1, 1)
    low, high = values["low"], values["high"]
    if values.get("log"):
        low, high, value = math.log(low), math.log(high), math.log(value)
    return float((value - low) / (high - low)) if high > low else 0.5


def slice_plot(key: str, values: Range, trials: Sequence[Trial], *, best: int) -> str:
    """Draw the score of every complete trial by one setting."""
    complete = [trial for trial in trials if trial["state"] == "complete"]
    with drawing(width=290, height=180, label=f"Score by {key}") as picture:
        axes = picture.figure.subplots()
        choices = values.get("choices")
        if values.get("log"):
            _log_axis(axes, values)
        elif isinstance(values.get("low"), int):
            axes.xaxis.set_major_locator(whole_ticks(6))
        for trial in complete:
            value = trial["parameters"][key]
            x = value if choices is None else choices.index(value)
            color = SERIES[1] if trial["number"] == best else SERIES[0]
            axes.plot([x], [trial["score"]], "o", color=color, markersize=5, alpha=0.75)
        if choices is not None:
            axes.set_xticks(range(len(choices)), [shorten(str(each), length=12) for each in choices], fontsize=8)
            axes.set_xlim(-0.5, len(choices) - 0.5)
        axes.yaxis.set_major_formatter(score_tick)
    return picture.svg


def _log_axis(axes: Axes, values: Range) -> None:
    """Make the horizontal axis logarithmic; label both ends and the middle, as powers need a font of their own."""
    low, high = values["low"], values["high"]
    ends = [low, math.sqrt(low * high), high]
    axes.set_xscale("log")
    axes.set_xticks(ends, [f"{end:.2g}" for end in ends])
    axes.set_xticks([], minor=True)


def pareto_front(points: Mapping[int, Point], front: Sequence[int], *, x: str, y: str) -> str:
    """Draw the scores of every trial on two tasks; those for which no other is better on all tasks are circled.

    Args:
        points: The two scores by the number of the trial.
        front: The numbers of the trials that no other dominates, on all tasks.
        x: The name of the first score.
        y: The name of the second one.
    """
    with drawing(width=290, height=250, label=f"{x} and {y} of all trials") as picture:
        axes = picture.figure.subplots()
        axes.grid(visible=True, axis="both")
        axes.plot(*zip(*points.values(), strict=True), "o", color=SERIES[0], markersize=5, alpha=0.7)
        for number in front:
            axes.plot(*points[number], "o", color=SERIES[1], markersize=10, fillstyle="none")
            axes.annotate(str(number), points[number], xytext=(6, 3), textcoords="offset points", fontsize=8)
        axes.set(xlabel=shorten(x), ylabel=shorten(y))
        axes.xaxis.set_major_formatter(score_tick)
        axes.yaxis.set_major_formatter(score_tick)
    return picture.svg


def _points(trials: Sequence[Trial]) -> tuple[list[int], list[float]]:
    return [trial["number"] for trial in trials], [trial["score"] for trial in trials]
