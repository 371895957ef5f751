"""Priors: the share of each class where a model will be used, as a recipe gives them. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

TOLERANCE = 1e-3
"""How far the sum of shares that were rounded by hand may be from 1."""


def shares_in_order(prior: Any, classes: Sequence[str]) -> tuple[float, ...]:
    """Return one share per class, in index order, from a list or from a table by class name.

    Raises:
        ValueError: The prior has another form, another number of shares, or one that is not between 0 and 1.
    """
    shares = prior
    if isinstance(prior, Mapping) and set(prior) == set(classes):
        shares = [prior[name] for name in classes]
    if not isinstance(shares, list | tuple) or not all(map(_is_number, shares)):
        raise ValueError(
            "prior takes numbers: the share of yes of a binary task, a list of one share per class, or a table with "
            f"a share for each of {', '.join(classes) or 'the classes'}; found {prior!r}"
        )
    if len(shares) != len(classes):
        raise ValueError(f"prior needs one share for each of {len(classes)} classes, found {len(shares)}")
    if not all(0 < share < 1 for share in shares):
        raise ValueError(f"prior needs shares between 0 and 1, found {', '.join(f'{share:g}' for share in shares)}")
    return tuple(map(float, shares))


def check_sum(shares: Sequence[float]) -> None:
    """Raise ValueError for shares that do not add up to 1."""
    if abs(math.fsum(shares) - 1) > TOLERANCE:
        raise ValueError(f"prior needs shares that add up to 1, found {math.fsum(shares):g}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
