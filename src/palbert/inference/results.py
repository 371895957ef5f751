"""What an evaluation found: one TaskResult per task, plain numpy, no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palbert.tasks.choices import Target


@dataclass(frozen=True)
class TaskResult:
    """Predictions of one task on one split, with their scores."""

    task: str
    split: str
    target: Target
    classes: tuple[str, ...]
    """Class names in index order; empty for numbers."""
    metric: str
    """The metric that stands for the task in the overall score; a key of `scores`."""
    scores: dict[str, float]
    """Every metric of the task."""
    ids: list[str]
    """Row ids, as in the data."""
    texts: list[tuple[str, ...]]
    """One text a row, or two for pairs."""
    gold: NDArray[np.float64] | NDArray[np.int64]
    """True class indices or numbers; NaN or -1 never occurs."""
    predicted: NDArray[np.float64] | NDArray[np.int64]
    """Predicted class indices or numbers."""
    probabilities: NDArray[np.float64] | None
    """(rows, classes), for classes and binary tasks."""
