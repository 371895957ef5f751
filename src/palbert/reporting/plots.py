"""Plots of a run and of its data, each as one inline SVG string.

They need matplotlib (the extra `plots`); without it every function raises MissingExtraError.
All are about 400 units wide, so that text keeps its size in a column of a page and on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palbert.metrics import Values
from palbert.reporting.marks import (
    MOST_POINTS,
    WIDTH,
    band_means,
    class_bars,
    class_ticks,
    confusion_cell,
    count_tick,
    epoch_axis,
    finite_points,
    legend,
    moving_average,
    number_steps,
    percent_tick,
    sampled_rows,
    score_tick,
    stroke,
    whole_ticks,
)
from palbert.reporting.svg import INK, MUTED, SERIES, drawing, shorten
from palbert.reporting.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MOST_POINTS",
    "confusion_matrix",
    "cosine_curves",
    "label_distribution",
    "length_histogram",
    "loss_curves",
    "residuals",
    "score_curves",
    "seed_scores",
    "similarity_scatter",
    "task_counts",
]

Series = tuple[Sequence[float], Sequence[float]]
"""The x and the y values of one line."""

SMALL = (290.0, 180.0)
"""Width and height of the plots with one per task, shown three in a row."""
HEIGHT = 250.0


def loss_curves(losses: Mapping[str, Series], *, tasks: Sequence[str] | None = None) -> str:
    """Draw training losses: the logged values faintly, their moving average strongly.

    Args:
        losses: Steps and losses, by task.
        tasks: All tasks of the run, in order: each keeps its colour in every plot. By default those of `losses`.
    """
    order = list(tasks or losses)
    width, height = SMALL if len(losses) == 1 else (WIDTH, HEIGHT)
    with drawing(width=width, height=height, label=f"Training loss of {', '.join(losses)} by step") as picture:
        axes = picture.figure.subplots()
        top = 0.0
        for task, series in losses.items():
            values, smooth = _smoothed_line(axes, task, series, color=stroke(order.index(task))[0])
            if len(values):  # one early spike must not flatten the rest of the curve
                top = max(top, float(np.quantile(values, 0.995)), float(smooth.max()))
        axes.set_ylim(0.0, top * 1.08 or 1.0)
        _step_axis(axes)
        if len(losses) > 1:
            legend(picture.figure, axes)
    return picture.svg


def cosine_curves(cosines: Mapping[str, Series]) -> str:
    """Draw the cosine between the gradients of each pair of tasks, and its moving average; below 0 they conflict."""
    label = f"Cosine between the gradients of {', '.join(cosines)} by step"
    with drawing(width=WIDTH, height=HEIGHT, label=label) as picture:
        axes = picture.figure.subplots()
        axes.axhline(0.0, color=MUTED, linewidth=1.0)
        for index, (pair, series) in enumerate(cosines.items()):
            color, dashes = stroke(index)
            _smoothed_line(axes, pair, series, color=color, dashes=dashes)
        axes.set_ylabel("cosine")
        _step_axis(axes)
        legend(picture.figure, axes)
    return picture.svg


def _smoothed_line(
    axes: Axes, name: str, series: Series, *, color: str, dashes: str = "-"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw the finite values of a series faintly and their moving average strongly; return both."""
    x, y = finite_points(*series)
    if len(x) == 0:
        return y, y
    smooth = moving_average(y, window=max(1, len(y) // 15))
    stride = len(x) // 800 + 1
    axes.plot(x[::stride], y[::stride], color=color, alpha=0.28, linewidth=0.9)
    marker = "o" if len(x) == 1 else ""  # a line of one point cannot be seen
    axes.plot(x[::stride], smooth[::stride], color=color, linestyle=dashes, marker=marker, label=shorten(name))
    return y, smooth


def _step_axis(axes: Axes) -> None:
    """Label the horizontal axis with whole steps."""
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(whole_ticks(5))
    axes.xaxis.set_major_formatter(count_tick)


def score_curves(
    epochs: Sequence[float],
    scores: Mapping[str, Sequence[float]],
    *,
    overall: Sequence[float] | None = None,
) -> str:
    """Draw the score of each task, and the overall score, after each epoch; NaN leaves a gap.

    Args:
        epochs: The epochs of the scores; 0 is before training.
        scores: One value per epoch, by task.
        overall: The overall score; its best epoch is circled.
    """
    with drawing(width=WIDTH, height=HEIGHT + 20, label=f"Scores of {', '.join(scores)} by epoch") as picture:
        axes = picture.figure.subplots()
        for index, (task, values) in enumerate(scores.items()):
            color, dashes = stroke(index)
            axes.plot(epochs, values, color=color, linestyle=dashes, marker="o", markersize=3.5, label=shorten(task))
        if overall is not None and np.isfinite(overall).any():
            axes.plot(epochs, overall, color=INK, linewidth=2.6, marker="o", markersize=4.5, label="overall")
            best = int(np.nanargmax(overall))
            axes.plot([epochs[best]], [overall[best]], "o", markersize=10, fillstyle="none", color=INK)
        epoch_axis(axes, epochs)
        legend(picture.figure, axes)
    return picture.svg


def seed_scores(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Draw the scores of each seed of several rows and their means: one panel per metric, all with the same scale.

    Args:
        scores: One value per seed, by metric and row; every metric has the same rows.
    """
    rows = list(next(iter(scores.values())))
    ends = {metric: (min(map(min, own.values())), max(map(max, own.values()))) for metric, own in scores.items()}
    half = max(0.01, *(0.6 * (high - low) for low, high in ends.values()))
    label = f"{', '.join(scores)} of {', '.join(rows)}: every seed, and their mean"
    with drawing(width=WIDTH, height=HEIGHT, label=label) as picture:
        panels = picture.figure.subplots(1, len(scores), squeeze=False)[0]
        for axes, (metric, values) in zip(panels, scores.items(), strict=True):
            for place, row in enumerate(rows):
                color, _ = stroke(place)
                mean = float(np.mean(values[row]))
                axes.plot(
                    [place - 0.3, place + 0.3],
                    [mean, mean],
                    color=color,
                    linewidth=2.6,
                    label=shorten(row, length=40),
                )
                axes.plot([place] * len(values[row]), values[row], "o", color=color, markersize=4.5, alpha=0.6)
            middle = sum(ends[metric]) / 2
            axes.set(title=shorten(metric), xlim=(-0.6, len(rows) - 0.4), ylim=(middle - half, middle + half))
            axes.set_xticks([])
            axes.tick_params(axis="y", labelsize=8.5)
            axes.yaxis.set_major_formatter(score_tick)
        legend(picture.figure, panels[0])
    return picture.svg


def task_counts(
    epochs: Sequence[float],
    planned: Mapping[str, Sequence[float]],
    drawn: Mapping[str, Sequence[float]],
) -> str:
    """Draw how many batches of each task an epoch had: planned as circles, drawn as dots and lines."""
    tasks = list(dict.fromkeys([*planned, *drawn]))
    label = f"Batches of {', '.join(tasks)} by epoch, planned and drawn"
    with drawing(width=WIDTH, height=HEIGHT + 20, label=label) as picture:
        axes = picture.figure.subplots()
        for index, task in enumerate(tasks):
            color, dashes = stroke(index)
            if task in planned:
                axes.plot(epochs, planned[task], "o", markersize=8, fillstyle="none", color=color, alpha=0.75)
            counts = drawn.get(task, [np.nan] * len(epochs))
            axes.plot(epochs, counts, color=color, linestyle=dashes, marker="o", markersize=3.5, label=shorten(task))
        axes.plot([], [], "o", markersize=8, fillstyle="none", color=MUTED, label="planned")
        axes.set_ylim(bottom=0.0)
        axes.yaxis.set_major_locator(whole_ticks(6))
        axes.yaxis.set_major_formatter(count_tick)
        epoch_axis(axes, epochs)
        legend(picture.figure, axes)
    return picture.svg


def label_distribution(splits: Mapping[str, Values], *, classes: Sequence[str] = (), name: str = "") -> str:
    """Draw the label distributions of several splits next to each other, as shares of each split.

    Args:
        splits: Labels, or predictions, by the name of the split; empty ones are left out.
        classes: Class names in index order; without them the labels are numbers and drawn as histograms.
        name: The task, for the description of the picture.
    """
    filled = {split: values for split, values in splits.items() if len(values)}
    with drawing(width=WIDTH, height=HEIGHT, label=f"Labels of {name}: {', '.join(filled)}") as picture:
        axes = picture.figure.subplots()
        if classes:
            class_bars(axes, filled, classes)
        else:
            number_steps(axes, filled)
        axes.yaxis.set_major_formatter(percent_tick)
        legend(picture.figure, axes)
    return picture.svg


def confusion_matrix(matrix: NDArray[np.int64], classes: Sequence[str], *, name: str = "") -> str:
    """Draw gold classes (down) against predicted ones (across): shades are shares of the row, numbers are counts."""
    size = len(classes)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    label = f"Confusion matrix of {name}: {size} classes, {int(matrix.sum())} rows"
    with drawing(width=WIDTH, height=min(400, 160 + 48 * size), label=label) as picture:
        axes = picture.figure.subplots()
        axes.grid(visible=False)
        for row, column in np.ndindex(matrix.shape):
            confusion_cell(axes, row, column, count=int(matrix[row, column]), share=shares[row, column], size=size)
        axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xlabel="predicted", ylabel="gold")
        axes.spines["bottom"].set_visible(False)
        class_ticks(axes, classes, width=WIDTH * 0.75)
        axes.set_yticks(range(size), [shorten(label, length=16) for label in classes])
    return picture.svg


def similarity_scatter(gold: Values, predicted: Values, *, name: str = "") -> str:
    """Draw predicted against gold numbers, with the diagonal on which they are equal."""
    with drawing(width=WIDTH, height=360, label=f"Gold against predicted numbers of {name}") as picture:
        axes = picture.figure.subplots()
        ends = [float(min(gold.min(), predicted.min())), float(max(gold.max(), predicted.max()))]
        axes.plot(ends, ends, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        rows = sampled_rows(len(gold))
        axes.plot(gold[rows], predicted[rows], "o", color=SERIES[0], markersize=4.5, alpha=0.38, markeredgewidth=0)
        axes.grid(visible=True, axis="both")
        axes.set(xlabel="gold", ylabel="predicted")
    return picture.svg


def residuals(gold: Values, predicted: Values, *, name: str = "") -> str:
    """Draw predicted minus gold: as a histogram, and against gold with the mean of ten bands."""
    errors = np.asarray(predicted - gold, dtype=np.float64)
    with drawing(width=WIDTH, height=360, label=f"Residuals of {name}: histogram, and against gold") as picture:
        upper, lower = picture.figure.subplots(2, 1)
        upper.hist(errors, bins=30, color=SERIES[0], alpha=0.75, rwidth=0.92)
        upper.axvline(0.0, color=INK, linewidth=1.0)
        upper.set(xlabel="predicted − gold", ylabel="rows")
        upper.yaxis.set_major_formatter(count_tick)
        rows = sampled_rows(len(gold))
        lower.axhline(0.0, color=INK, linewidth=1.0)
        lower.plot(gold[rows], errors[rows], "o", color=SERIES[0], markersize=3.5, alpha=0.3, markeredgewidth=0)
        lower.plot(*band_means(gold, errors), color=SERIES[1], marker="o", markersize=4)
        lower.set(xlabel="gold", ylabel="predicted − gold")
    return picture.svg


def length_histogram(lengths: Values, *, max_length: int, name: str = "", small: bool = False) -> str:
    """Draw token lengths before truncation, and the length at which inputs are truncated.

    Args:
        lengths: The number of tokens of each input of the encoder.
        max_length: The length at which inputs are truncated.
        name: The task, for the description of the picture.
        small: Draw it for a row of three.
    """
    cut = int(np.count_nonzero(lengths > max_length))
    right = int(max(np.quantile(lengths, 0.995), max_length)) + 1
    width = right // 32 + 1
    edges = np.arange(0, right + 2 * width, width) + 0.5  # between whole lengths
    counts, _ = np.histogram(np.minimum(lengths, edges[-1]), bins=edges)
    color = [SERIES[1] if left >= max_length else SERIES[0] for left in edges[:-1]]
    size = SMALL if small else (WIDTH, 220.0)
    with drawing(width=size[0], height=size[1], label=f"Token lengths of {name}") as picture:
        axes = picture.figure.subplots()
        axes.bar(edges[:-1], counts, width=width * 0.9, align="edge", color=color, alpha=0.8)
        axes.axvline(max_length + 0.5, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
        _annotate_limit(axes, max_length, cut / max(len(lengths), 1), right_side=max_length <= 0.45 * edges[-1])
        longer = " (last bar: and more)" if lengths.max() > edges[-1] else ""
        axes.set(
            xlabel=f"tokens{longer}",
            ylabel="inputs",
            xlim=(0.0, float(edges[-1])),
            ylim=(0.0, counts.max() * 1.35),
        )
        axes.yaxis.set_major_locator(whole_ticks(5))
        axes.yaxis.set_major_formatter(count_tick)
    return picture.svg


def _annotate_limit(axes: Axes, max_length: int, truncated: float, *, right_side: bool) -> None:
    """Write the limit and the share of truncated inputs next to the line at the limit."""
    axes.annotate(
        f"max_length {max_length}\n{percent(truncated)} truncated",
        xy=(max_length + 0.5, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(6, -2) if right_side else (-6, -2),
        textcoords="offset points",
        ha="left" if right_side else "right",
        va="top",
    )
