"""Abstaining: no answer where the model is not sure enough of it."""

from __future__ import annotations

from collections.abc import Sequence

from palbert.errors import DataError
from palbert.targets import Decoded, Target
from palbert.tasks.spec import Task


def check_confidence(min_confidence: float | None, task: Task | None = None) -> None:
    """Raise DataError for a confidence that is not a probability, or for a task whose answers have none."""
    if min_confidence is None:
        return
    number = isinstance(min_confidence, int | float) and not isinstance(min_confidence, bool)
    if not number or not 0 <= min_confidence <= 1:
        raise DataError(f"min_confidence: expected a probability from 0 to 1, found {min_confidence!r}.")
    if task is not None and type(task.target).confidence is Target.confidence:
        raise DataError(
            f"min_confidence: the answers of task '{task.name}' have no probabilities (its target is "
            f"'{task.target.name}').",
            hint="Leave min_confidence out.",
        )


def abstentions(target: Target, decoded: Decoded, min_confidence: float | None) -> Sequence[bool | None]:
    """Return for each row whether its answer is less likely to be right than asked; None where every answer is given.

    Args:
        target: What an answer is.
        decoded: The predictions, with probabilities.
        min_confidence: The least probability with which an answer is given; None gives all.
    """
    confidence = None if min_confidence is None else target.confidence(decoded)
    if confidence is None or min_confidence is None:
        return [None] * len(decoded.predicted)
    return [bool(value < min_confidence) for value in confidence]
