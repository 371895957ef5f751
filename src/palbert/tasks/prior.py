"""Prior: the share of each class where a model is to be used, given as numbers. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import PydanticCustomError

TOLERANCE = 1e-3
"""How far shares that were rounded by hand may be from 1 in sum."""
NUMBER = "prior is for classes and binary; this task predicts a number"
"""What is said of a prior where there are no classes."""


def in_order(prior: Any, *, target: Any, classes: Any) -> Any:
    """Return shares in the order of the classes.

    Args:
        prior: The share of yes of a binary task, one share a class, or a table of them by class name.
        target: What the task predicts.
        classes: Class names in index order.
    """
    if target == "binary" and isinstance(prior, int | float) and not isinstance(prior, bool):
        return (1 - prior, prior)
    if isinstance(prior, Mapping) and isinstance(classes, Sequence) and set(prior) == set(classes):
        return tuple(prior[name] for name in classes)
    if isinstance(prior, list | tuple):
        return prior
    if target == "number":
        raise PydanticCustomError("contradiction", NUMBER)
    names = ", ".join(map(str, classes or ()))
    raise PydanticCustomError(
        "contradiction",
        "prior takes numbers: the share of yes of a binary task, a list of one share a class, or a table with a share "
        "for each of {names}; found {found}",
        {"names": names or "the classes", "found": repr(dict(prior) if isinstance(prior, Mapping) else prior)},
    )


def problems_of(prior: tuple[float, ...], *, classes: tuple[str, ...]) -> list[str]:
    """Say what is wrong with shares: one above 0 for each class, 1 in sum."""
    if not prior:
        return []
    if not classes:
        return [NUMBER]
    if len(prior) != len(classes):
        return [f"prior needs one share for each of {len(classes)} classes, found {len(prior)}"]
    if not all(0 < share < 1 for share in prior):
        return [f"prior needs shares between 0 and 1, found {', '.join(f'{share:g}' for share in prior)}"]
    if abs(math.fsum(prior) - 1) > TOLERANCE:
        return [f"prior needs shares that add up to 1, found {math.fsum(prior):g}"]
    return []
