"""Results: what an evaluation found, one TaskResult per task. Plain numpy, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from palbert.metrics import Values
from palbert.targets import Target


@dataclass(frozen=True)
class TaskResult:
    """Predictions of one task on one split, with their scores."""

    task: str
    split: str
    target: Target
    """What an answer is."""
    metric: str
    """The metric that represents the task in the overall score; a key of `scores`."""
    scores: dict[str, float]
    """Every metric of the task."""
    ids: list[str]
    """Row ids, as in the data."""
    texts: list[tuple[str, ...]]
    """One text per row, or two for pairs."""
    gold: Values
    """The labels, as the target's metrics compare them."""
    predicted: Values
    """The predictions, in the form of the labels."""
    probabilities: NDArray[np.float64] | None
    """(rows, classes), where the target has classes."""
    outputs: NDArray[np.float64] | None = field(default=None, repr=False)
    """The head's outputs, before any calibration, (rows, outputs)."""

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Which rows have a wrong prediction, (rows,)."""
        differs: NDArray[np.bool_] = np.not_equal(self.gold, self.predicted)
        return differs if differs.ndim == 1 else np.asarray(differs.any(axis=1))
