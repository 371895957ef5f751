"""Row weights: how much each row counts in its set's loss, from a column of the file and from the row's class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from palbert.errors import DataError
from palbert.options import LARGEST_FLOAT
from palbert.readers import Chunk
from palbert.targets import Target
from palbert.targets.decimals import as_number

ClassWeights = Literal["balanced"] | Sequence[float]
"""One weight per class, in index order; none if empty."""


def read_weights(chunk: Chunk, column: str) -> list[float | None]:
    """Return a column of weights, None for a row without one; raise DataError for what is not a weight."""
    weights: list[float | None] = []
    for cell, line in zip(chunk.column(column), chunk.lines, strict=True):
        text = (cell or "").strip()
        weight = as_number(text)
        if text and (weight is None or not 0 <= weight <= LARGEST_FLOAT):
            raise DataError(
                f"{chunk.path}, line {line}: expected a row weight, a number from 0 to {LARGEST_FLOAT:.2g}, "
                f"in '{column}', found \"{text}\".",
                hint="Write it with a decimal point. Weight 2 counts as two rows, weight 0 as none.",
            )
        weights.append(weight if text else None)
    return weights


def training_weights(
    weights: NDArray[np.float64] | None,
    labels: NDArray[Any] | None,
    class_weights: ClassWeights,
    *,
    target: Target,
    name: str,
) -> NDArray[np.float32] | None:
    """Return what each row's loss is multiplied by, with mean 1 over the set; None where all rows count alike.

    Args:
        weights: Those of the file, if it has any.
        labels: The labels of all rows.
        class_weights: A further factor by class. "balanced" gives all classes that occur the same total weight.
        target: What a label is.
        name: The set, for errors.
    """
    if weights is None and not class_weights:
        return None
    assert labels is not None, f"{name}: weights are for labelled rows"
    own = np.ones(len(labels)) if weights is None else weights.astype(np.float64)
    if class_weights:
        indices = target.class_indices(labels)
        factors = balanced(indices, own) if class_weights == "balanced" else np.array(class_weights, dtype=np.float64)
        own = own * factors[indices]
    total = math.fsum(own)
    if total <= 0:
        raise DataError(
            f"{name} train: every row has weight 0.", hint="Give some rows a weight above 0, or leave the weights out."
        )
    if own.min() == own.max():
        return None
    return (own * (len(own) / total)).astype(np.float32)


def balanced(indices: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor n / (k · n_c) of each class c, for n rows and the k classes that occur.

    With row weights, sums of weights take the place of counts. A class without rows, or without weight, gets 0.
    """
    totals = np.bincount(indices, weights=weights)
    present = totals > 0
    factors = np.zeros(len(totals))
    factors[present] = totals.sum() / (present.sum() * totals[present])
    return factors
