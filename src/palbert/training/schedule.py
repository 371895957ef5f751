"""Schedules: the share of the peak learning rate at each step, as pure functions of the step."""

from __future__ import annotations

from typing import Protocol


class Schedule(Protocol):
    """Return the factor on all learning rates."""

    def __call__(self, step: int, total: int) -> float:
        """Return the factor at a step, counted from 0, of `total` steps."""
        ...


class Constant:
    """The peak rate throughout."""

    def __call__(self, step: int, total: int) -> float:
        """Return 1."""
        return 1.0


class STLR:
    """Linear warm-up over the first part of the run, then linear to 0."""

    def __init__(self, *, warmup: float = 0.1) -> None:
        self.warmup = warmup

    def __call__(self, step: int, total: int) -> float:
        """Return the height of the triangle; the first step already moves."""
        rise = max(1.0, self.warmup * total)
        if step + 1 < rise:
            return (step + 1) / rise
        return max(0.0, (total - step) / max(1.0, total - rise + 1))


SCHEDULES = {"constant": Constant, "stlr": STLR}
