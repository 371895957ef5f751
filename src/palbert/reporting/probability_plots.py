"""Plots of probabilities: how often they hold, and accuracy by the share of rows that are answered."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from palbert.metrics.calibration import BINS, Reliability
from palbert.reporting.marks import WIDTH, legend, percent_tick, stroke
from palbert.reporting.svg import INK, MUTED, drawing

HEIGHT = 340.0


def reliability_diagram(kinds: Mapping[str, Reliability], *, name: str = "") -> str:
    """Draw the share of right predictions by their probability, with the diagonal on which both are equal.

    Args:
        kinds: The bins of each kind of probabilities, such as before and after calibration.
        name: The task, for the description of the picture.
    """
    with drawing(width=WIDTH, height=HEIGHT, label=f"Reliability diagram of {name}: {', '.join(kinds)}") as picture:
        upper, lower = picture.figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        upper.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        for index, (kind, bins) in enumerate(kinds.items()):
            color, dashes = stroke(index)
            upper.plot(bins.confidence, bins.right, color=color, linestyle=dashes, marker="o", markersize=4, label=kind)
            left = np.minimum(np.ceil(bins.confidence * BINS) - 1, BINS - 1) / BINS
            share, width = bins.rows / bins.rows.sum(), 0.9 / BINS / len(kinds)
            lower.bar(left + 0.05 / BINS + index * width, share, width=width, align="edge", color=color, alpha=0.8)
        upper.set(ylabel="right", ylim=(-0.03, 1.03))
        lower.set(xlabel="probability", ylabel="rows", xlim=(-0.02, 1.02))
        for axis in (upper.yaxis, lower.yaxis, lower.xaxis):
            axis.set_major_formatter(percent_tick)
        legend(picture.figure, upper)
    return picture.svg


def coverage_curve(coverage: NDArray[np.float64], right: NDArray[np.float64], *, name: str = "") -> str:
    """Draw the share of right answers by the share of rows that are answered, surest rows first."""
    with drawing(width=WIDTH, height=250, label=f"Share of right answers of {name} by coverage") as picture:
        axes = picture.figure.subplots()
        axes.axhline(float(right[-1]), color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        stride = len(coverage) // 800 + 1
        shown = np.append(np.arange(0, len(coverage) - 1, stride), len(coverage) - 1)
        axes.plot(coverage[shown], right[shown], color=stroke(0)[0], drawstyle="steps-post")
        axes.plot(coverage[-1:], right[-1:], "o", color=INK, markersize=4.5)
        low = float(right.min())
        axes.set(xlabel="rows answered", ylabel="right", xlim=(0, 1.02), ylim=(max(0.0, low - 0.08), 1.02))
        axes.yaxis.set_major_formatter(percent_tick)
        axes.xaxis.set_major_formatter(percent_tick)
    return picture.svg
