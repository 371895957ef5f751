"""Marks: the pieces that plots are made of, and the computations behind them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palbert.metrics import Values
from palbert.reporting.svg import GRID, HEAT, SERIES, shorten
from palbert.reporting.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

WIDTH = 400.0
"""Width of a plot, in units of its view box."""
MOST_POINTS = 1500
"""A scatter plot of more rows shows a sample, to keep the page small."""
ROOMY = 16
"""A confusion matrix with more classes has no room for numbers."""


def class_bars(axes: Axes, splits: Mapping[str, Values], classes: Sequence[str]) -> None:
    """Draw the share of each class, the splits next to each other."""
    width = 0.8 / max(len(splits), 1)
    for index, (split, values) in enumerate(splits.items()):
        indices = values.astype(np.intp) if values.ndim == 1 else np.nonzero(values)[1]  # one class per row, or several
        counts = np.bincount(indices, minlength=len(classes))[: len(classes)]
        places = np.arange(len(classes)) + (index - (len(splits) - 1) / 2.0) * width
        axes.bar(
            places,
            counts / len(values),
            width=width * 0.9,
            color=stroke(index)[0],
            alpha=0.85,
            label=counted(split, values),
        )
    class_ticks(axes, classes, width=WIDTH * 0.85)


def number_steps(axes: Axes, splits: Mapping[str, Values]) -> None:
    """Draw the histograms of the splits as outlines on top of each other."""
    everything = np.concatenate([np.asarray(values, dtype=np.float64) for values in splits.values()] or [np.zeros(1)])
    # Bins are centred on 26 even steps, so that each label in fifths from 0 to 5 has its own bin.
    low, high = float(everything.min()), float(everything.max())
    half = (high - low) / 50.0 or 0.5
    edges = np.linspace(low - half, high + half, 27)
    for index, (split, values) in enumerate(splits.items()):
        shares = np.histogram(values, bins=edges)[0] / len(values)
        color = stroke(index)[0]
        axes.stairs(shares, edges, color=color, linewidth=1.8, label=counted(split, values))
        if index == 0:
            axes.stairs(shares, edges, color=color, fill=True, alpha=0.15)


def confusion_cell(axes: Axes, row: int, column: int, *, count: int, share: float, size: int) -> None:
    """Draw one cell of a confusion matrix, with as much text as fits."""
    from matplotlib.patches import Rectangle

    if count == 0 and size > ROOMY:  # hundreds of empty cells would slow the page down
        return
    corner = (column - 0.47, row - 0.47)
    axes.add_patch(Rectangle(corner, 0.94, 0.94, color=GRID, alpha=0.35, linewidth=0))
    axes.add_patch(Rectangle(corner, 0.94, 0.94, color=HEAT, alpha=share, linewidth=0))
    if size <= 6:
        axes.text(column, row - 0.04, f"{count:,}", ha="center", va="bottom")
        axes.text(column, row + 0.08, percent(share, 0), ha="center", va="top", fontsize=8.5)
    elif size <= ROOMY:
        axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=8)


def class_ticks(axes: Axes, classes: Sequence[str], *, width: float) -> None:
    """Name the classes under an axis that is `width` units wide; rotate names that would overlap."""
    names = [shorten(label, length=16) for label in classes]
    # A letter is about six units wide.
    if max(map(len, names)) * 6.0 > width / len(names):
        axes.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(range(len(names)), names)


def epoch_axis(axes: Axes, epochs: Sequence[float]) -> None:
    """Label the horizontal axis with whole epochs."""
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(whole_ticks(9))
    if len(epochs) and min(epochs) == max(epochs):
        axes.set_xlim(epochs[0] - 1, epochs[0] + 1)


def whole_ticks(most: int) -> Locator:
    """Return a locator of at most `most` whole numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=most, integer=True, min_n_ticks=1)


def legend(figure: Figure, axes: Axes) -> None:
    """Put a legend above the axes, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    widths = [len(label) * 5.6 + 33.0 for label in labels]  # an estimate, for the widest usual font
    columns = len(labels) if sum(widths) <= WIDTH else max(1, int(WIDTH / max(widths)))
    # Matplotlib fills column by column, but people read row by row.
    order = [index for column in range(columns) for index in range(column, len(labels), columns)]
    figure.legend(
        [handles[index] for index in order], [labels[index] for index in order],
        loc="outside upper left", ncols=columns,
    )  # fmt: skip


def stroke(index: int) -> tuple[str, str]:
    """Return the colour and the line style of a series; dashes begin when colours run out."""
    return SERIES[index % len(SERIES)], "-" if index < len(SERIES) else "--"


def percent_tick(value: float, _position: float = 0.0) -> str:
    """Write a share on an axis."""
    return percent(value, 0)


def score_tick(value: float, _position: float = 0.0) -> str:
    """Write a score on an axis, without the zero in front of the point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.3f}")


def count_tick(value: float, _position: float = 0.0) -> str:
    """Write a count on an axis."""
    return f"{value:,.0f}"


def counted(split: str, values: Values) -> str:
    """Return the name of a split with its number of rows."""
    return f"{shorten(split)} ({len(values):,})"


def sampled_rows(rows: int) -> NDArray[np.intp]:
    """Return all rows, or a random sample if there are too many to draw."""
    if rows <= MOST_POINTS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, size=MOST_POINTS, replace=False))


def finite_points(x: Sequence[float], y: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the points whose y is a number."""
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    kept = np.isfinite(second)
    return first[kept], second[kept]


def moving_average(values: NDArray[np.float64], *, window: int) -> NDArray[np.float64]:
    """Average each value with its neighbours; the window shrinks at the ends."""
    kernel = np.ones(window)
    weight = np.convolve(np.ones_like(values), kernel, mode="same")
    average: NDArray[np.float64] = np.convolve(values, kernel, mode="same") / weight
    return average


def band_means(gold: Values, errors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centres of ten bands of gold values, and the mean error in each band that has rows."""
    edges = np.histogram_bin_edges(gold, bins=10)
    band = np.clip(np.digitize(gold, edges) - 1, 0, 9)
    counts = np.bincount(band, minlength=10)
    sums = np.bincount(band, weights=errors, minlength=10)
    filled = counts > 0
    return ((edges[:-1] + edges[1:]) / 2.0)[filled], sums[filled] / counts[filled]
