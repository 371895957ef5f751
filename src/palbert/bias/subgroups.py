"""Subgroups: how well labelled rows are ranked that name a group (Borkan et al. 2019, arXiv:1903.04561)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.metrics.probabilities import roc_auc

LEAST = 10
"""Rows of either label below which an area is not reported."""
AREAS = {
    "subgroup_auc": ("inside", "inside"),
    "bpsn_auc": ("outside", "inside"),
    "bnsp_auc": ("inside", "outside"),
}
"""By area, where its positive and its negative rows come from: rows that name the group, or all others (the
background). A low BPSN AUC: rows that name the group get too high scores; a low BNSP AUC: too low ones."""


def subgroup_areas(
    named: Sequence[Mapping[str, set[str]]],
    positive: NDArray[np.bool_],
    scores: NDArray[np.float64],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Return the three areas of every group that some rows name, for one class at a time.

    Args:
        named: The groups that each row names, by axis.
        positive: Which rows have which class, (rows, classes).
        scores: How sure the model is of that, (rows, classes).
        names: The classes.
    """
    groups = sorted({(axis, group) for row in named for axis, each in row.items() for group in each})
    found = []
    for axis, group in groups:
        inside = np.array([group in row.get(axis, ()) for row in named])
        for column, name in enumerate(names):
            found.append(
                {"axis": axis, "group": group, "class": name, **_areas(inside, positive[:, column], scores[:, column])}
            )
    return found


def _areas(inside: NDArray[np.bool_], positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> dict[str, Any]:
    rows = {"inside": inside, "outside": ~inside}
    counts = {
        "positive": int((inside & positive).sum()),
        "negative": int((inside & ~positive).sum()),
        "background_positive": int((~inside & positive).sum()),
        "background_negative": int((~inside & ~positive).sum()),
    }
    areas = {name: _area(rows[pos] & positive, rows[neg] & ~positive, scores) for name, (pos, neg) in AREAS.items()}
    return {**counts, **areas}


def _area(positive: NDArray[np.bool_], negative: NDArray[np.bool_], scores: NDArray[np.float64]) -> float | None:
    """Return the share of pairs of a positive and a negative row in the right order; None with too few of them."""
    if min(positive.sum(), negative.sum()) < LEAST:
        return None
    chosen = positive | negative
    own = scores[chosen]
    return float(roc_auc(positive[chosen].astype(np.int64), np.stack([-own, own], axis=1)))
