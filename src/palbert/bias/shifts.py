"""Shifts: how far answers change from group to group, with intervals and corrected p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.bias.pairs import Pair

Numbers = NDArray[np.float64]
RESAMPLES = 2000
"""Resamples of an interval."""
EXCHANGES = 9999
"""Random exchanges of groups behind a p-value; the smallest possible one is 1 / (EXCHANGES + 1)."""
ALPHA = 0.05
AT_ONCE = 1 << 22
"""Numbers that are drawn at a time."""


@dataclass(frozen=True)
class Answers:
    """What a task answers to the rows of pairs."""

    first: Numbers
    """What answers are decided on, for the first row of each pair: (pairs, quantities)."""
    second: Numbers
    """The same for the second row."""
    flips: NDArray[np.bool_]
    """Whether the answers differ, (pairs,)."""
    quantities: Sequence[str]
    """What the columns are: the class whose log odds they are, or an empty name for a number."""


def group_figures(
    pairs: Sequence[Pair], answers: Answers, *, order: Mapping[str, Sequence[str]], seed: int = 0
) -> list[dict[str, Any]]:
    """Return the flip rate and the mean shift of every group, one table per group.

    The shift of a group is what its row gets minus what the row about the other group gets. Of an axis with two groups
    only the first has a table: the other's is the same with the other sign.

    The interval comes from resampling bases with all their pairs. The p-value comes from exchanging the two groups in
    random bases, which changes nothing if the model treats both alike (a paired randomisation test). The p-values of
    all groups and classes together are corrected by Holm's method (Holm 1979).

    Args:
        pairs: The pairs.
        answers: What the task answers to them.
        order: The groups of each axis in the order of the result; groups as they come for other axes.
        seed: Of resamples and exchanges.
    """
    places = _places(pairs, order)
    tests: list[tuple[int, float]] = []
    figures: list[dict[str, Any]] = []
    for number, ((axis, group), (rows, signs)) in enumerate(places.items()):
        shifts = (answers.first[rows] - answers.second[rows]) * signs[:, None]
        bases = np.unique([pairs[row].base for row in rows], return_inverse=True)[1]
        generator = np.random.default_rng([seed, number])
        found = _Sums(shifts, bases)
        low, high = found.interval(generator)
        tests += [(number, float(p)) for p in found.p_values(generator)]
        others = {pairs[row].second if sign > 0 else pairs[row].first for row, sign in zip(rows, signs, strict=True)}
        figures.append(
            {
                "axis": axis,
                "group": group,
                "against": sorted(others),
                "pairs": len(rows),
                "bases": int(bases.max()) + 1,
                "flip_rate": float(answers.flips[rows].mean()),
                "shifts": [float(value) for value in shifts.mean(axis=0)],
                "intervals": [[float(a), float(b)] for a, b in zip(low, high, strict=True)],
                "by_origin": _by_origin(pairs, rows, shifts, answers.flips),
            }
        )
    adjusted = holm(np.array([p for _, p in tests]))
    for number, each in enumerate(figures):
        own = [place for place, (owner, _) in enumerate(tests) if owner == number]
        best = min(range(len(own)), key=lambda place: (tests[own[place]][1], -abs(each["shifts"][place])))
        _choose(each, best, answers.quantities, p=tests[own[best]][1], adjusted=float(adjusted[own[best]]))
    return figures


def _choose(figure: dict[str, Any], best: int, quantities: Sequence[str], *, p: float, adjusted: float) -> None:
    """Keep the quantity with the smallest p-value, and say which one it is."""
    shifts, intervals = figure.pop("shifts"), figure.pop("intervals")
    if quantities[best]:
        figure["class"] = quantities[best]
    for each in figure["by_origin"].values():
        each["mean_shift"] = each.pop("shifts")[best]
    figure |= {
        "mean_shift": shifts[best],
        "interval": intervals[best],
        "p": p,
        "p_adjusted": adjusted,
        "significant": adjusted < ALPHA,
    }


def _places(
    pairs: Sequence[Pair], order: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], tuple[NDArray[np.int64], Numbers]]:
    """Return for each group the pairs that it is in, and 1 where it comes first, −1 where it comes second."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for number, pair in enumerate(pairs):
        groups = found.setdefault(pair.axis, {group: [] for group in order.get(pair.axis, ())})
        groups.setdefault(pair.first, []).append((number, 1.0))
        groups.setdefault(pair.second, []).append((number, -1.0))
    places = {}
    for axis, groups in found.items():
        seen = [group for group, rows in groups.items() if rows]
        for group in seen if len(seen) > 2 else seen[:1]:
            rows, signs = zip(*groups[group], strict=True)
            places[axis, group] = np.array(rows, dtype=np.int64), np.array(signs)
    return places


def _by_origin(
    pairs: Sequence[Pair], rows: NDArray[np.int64], shifts: Numbers, flips: NDArray[np.bool_]
) -> dict[str, dict[str, Any]]:
    origins = np.array([pairs[row].origin for row in rows])
    return {
        str(origin): {
            "pairs": int((origins == origin).sum()),
            "flip_rate": float(flips[rows][origins == origin].mean()),
            "shifts": [float(value) for value in shifts[origins == origin].mean(axis=0)],
        }
        for origin in np.unique(origins)
    }


class _Sums:
    """The shifts of each base added up: what resampling and exchanging need.

    Args:
        shifts: (pairs, quantities).
        bases: The number of each pair's base, (pairs,).
    """

    def __init__(self, shifts: Numbers, bases: NDArray[np.int64]) -> None:
        self.bases = int(bases.max()) + 1
        self.sums = np.stack([np.bincount(bases, weights=column) for column in shifts.T], axis=1)
        self.counts = np.bincount(bases).astype(np.float64)
        self.mean = shifts.mean(axis=0)

    def interval(self, generator: np.random.Generator) -> tuple[Numbers, Numbers]:
        """Return the ends of the central 95 % of the means of resampled bases, by quantity."""
        means = []
        for draws in self._portions(RESAMPLES):
            chosen = generator.integers(self.bases, size=(draws, self.bases))
            flat = (chosen + np.arange(draws)[:, None] * self.bases).ravel()
            times = np.bincount(flat, minlength=draws * self.bases).reshape(draws, self.bases).astype(np.float64)
            means.append((times @ self.sums) / (times @ self.counts)[:, None])
        low, high = np.quantile(np.concatenate(means), [0.025, 0.975], axis=0)
        return np.minimum(low, self.mean), np.maximum(high, self.mean)

    def p_values(self, generator: np.random.Generator) -> Numbers:
        """Return the share of random exchanges with a mean at least as far from 0, by quantity."""
        extreme = np.abs(self.sums.sum(axis=0))
        reached = np.zeros(self.sums.shape[1])
        for draws in self._portions(EXCHANGES):
            signs = generator.integers(0, 2, size=(draws, self.bases), dtype=np.int8).astype(np.float64) * 2 - 1
            # Sums in another order may differ in the last digits; these are not less extreme.
            reached += (np.abs(signs @ self.sums) >= extreme * (1 - 1e-9) - 1e-12).sum(axis=0)
        result: Numbers = (reached + 1) / (EXCHANGES + 1)
        return result

    def _portions(self, total: int) -> list[int]:
        size = max(1, min(total, AT_ONCE // self.bases))
        return [min(size, total - start) for start in range(0, total, size)]


def holm(p_values: Numbers) -> Numbers:
    """Return p-values corrected for their number by Holm's step-down method, in the given order."""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    stepped = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    adjusted: Numbers = np.empty_like(p_values)
    adjusted[order] = stepped
    return adjusted
