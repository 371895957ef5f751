"""Fixtures of the tests of panels: results of a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palbert.inference.results import TaskResult
from palbert.targets import Target


class MakeResult:
    """Make a result from labels and predictions."""

    def __call__(self, target: Target, *, gold: Any, predicted: Any, probabilities: Any = None) -> TaskResult:
        rows = len(gold)
        return TaskResult(
            task="mine",
            split="dev",
            target=target,
            metric=target.metrics[0],
            scores={},
            ids=[f"row {row}" for row in range(rows)],
            texts=[(f"text {row}",) for row in range(rows)],
            gold=np.array(gold),
            predicted=np.array(predicted),
            probabilities=None if probabilities is None else np.array(probabilities, dtype=np.float64),
        )


@pytest.fixture
def make_result() -> MakeResult:
    """Return the function that makes results."""
    return MakeResult()
