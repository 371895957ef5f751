"""Class weights: how much the rows of each class count, as a recipe gives them. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

BALANCED = "balanced"


def weights_in_order(weights: Any, classes: Sequence[str]) -> str | tuple[float, ...]:
    """Return "balanced", or one weight per class, in index order, from a list or from a table by class name.

    A class that a table does not name has weight 1.

    Raises:
        ValueError: The weights have another form, another number, or one of them is negative.
    """
    if weights == BALANCED:
        return BALANCED
    values = weights
    if isinstance(weights, Mapping):
        unknown = [str(name) for name in weights if name not in classes]
        if unknown:
            raise ValueError(f"class_weights names '{unknown[0]}', which is not one of {', '.join(classes)}")
        values = [weights.get(name, 1.0) for name in classes]
    if not isinstance(values, list | tuple) or not all(map(_is_number, values)):
        raise ValueError(
            'class_weights takes "balanced", a list of one weight per class, or a table of weights by class name, '
            f"found {weights!r}"
        )
    if len(values) != len(classes):
        raise ValueError(f"class_weights needs one weight for each of {len(classes)} classes, found {len(values)}")
    if not all(math.isfinite(value) and value >= 0 for value in values) or not any(values):
        found = ", ".join(f"{value:g}" for value in values)
        raise ValueError(f"class_weights needs numbers from 0, not all of them 0, found {found}")
    return tuple(map(float, values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
