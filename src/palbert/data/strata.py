"""Strata: rows with alike labels, so that dev has its share of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.data.dataset import Dataset
from palbert.targets import Target

BINS = 10
FEWEST_IN_BIN = 20
"""Numbers are divided by quantiles into at most so many bins of at least so many rows."""


def strata_of(dataset: Dataset, target: Target) -> NDArray[np.int64]:
    """Return the stratum of each row: its class, its quantile, or of several classes the rarest one.

    Labels of a target that palbert does not know are one stratum per value if values repeat, and quantiles otherwise.
    """
    if dataset.labels is None:
        return np.zeros(len(dataset), dtype=np.int64)
    labels = np.asarray(dataset.labels)
    if labels.ndim > 1:
        return _rarest(labels.reshape(len(labels), -1))
    values, stratum = np.unique(labels, return_inverse=True)
    if target.classes or len(values) <= BINS:
        return stratum.reshape(-1).astype(np.int64)
    return _quantiles(labels)


def _quantiles(labels: NDArray[Any]) -> NDArray[np.int64]:
    bins = int(np.clip(len(labels) // FEWEST_IN_BIN, 1, BINS))
    edges = np.quantile(labels, np.arange(1, bins) / bins)
    return _ranked(np.searchsorted(edges, labels, side="left"))


def _rarest(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each row the class of it that fewest rows have; rows without classes are a stratum of their own."""
    has = labels > 0
    counts = np.where(has, has.sum(axis=0), len(labels) + 1)
    return _ranked(np.where(has.any(axis=1), counts.argmin(axis=1), -1))


def _ranked(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
