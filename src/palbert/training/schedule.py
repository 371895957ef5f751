"""Schedules: the fraction of the peak learning rate at each step, as pure functions of the step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from palbert.options import check_number


class Schedule(ABC):
    """A pure function of the step, made as `Class(**options)`."""

    @abstractmethod
    def __call__(self, step: int, total: int) -> float:
        """Return the factor on all learning rates at a step, counted from 0, of `total` steps."""


class Constant(Schedule):
    """The peak rate throughout."""

    def __call__(self, step: int, total: int) -> float:
        """Return 1."""
        return 1.0


class STLR(Schedule):
    """Linear warm-up over the first part of the run, then linear to 0."""

    def __init__(self, *, warmup: float = 0.1) -> None:
        self.warmup = check_number("warmup", warmup, least=0, most=1)

    def __call__(self, step: int, total: int) -> float:
        """Return the height of the triangle; the first step has a rate above 0."""
        return _warmed_up(step, total, warmup=self.warmup, fall=float)


class CosineDecay(Schedule):
    """Linear warm-up over the first part of the run, then half a cosine down to a fraction of the peak.

    Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5, without restarts.
    """

    def __init__(self, *, warmup: float = 0.1, end: float = 0.0) -> None:
        self.warmup = check_number("warmup", warmup, least=0, most=1)
        self.end = check_number("end", end, least=0, most=1)

    def __call__(self, step: int, total: int) -> float:
        """Return the height of the wave; the first step has a rate above 0, `end` is reached right after the last."""
        return _warmed_up(step, total, warmup=self.warmup, fall=self._wave)

    def _wave(self, left: float) -> float:
        return self.end + (1.0 - self.end) * (1.0 - math.cos(math.pi * left)) / 2


class SlantedTriangle(Schedule):
    """A short linear rise from 1/ratio of the peak, then a long linear fall back to it.

    Howard & Ruder 2018 (ULMFiT), arXiv:1801.06146, equation 3. The paper rounds `cut` down; here it is at least one
    step, and p is at least 0, where that rounding would make p, and so the rate, negative.
    """

    def __init__(self, *, cut_frac: float = 0.1, ratio: float = 32) -> None:
        self.cut_frac = check_number("cut_frac", cut_frac, above=0, below=1)
        self.ratio = check_number("ratio", ratio, least=1)

    def __call__(self, step: int, total: int) -> float:
        """Return the height of the triangle."""
        cut = max(1, math.floor(total * self.cut_frac))
        p = step / cut if step < cut else max(0.0, 1 - (step - cut) / (cut * (1 / self.cut_frac - 1)))
        return (1 + p * (self.ratio - 1)) / self.ratio


def _warmed_up(step: int, total: int, *, warmup: float, fall: Callable[[float], float]) -> float:
    """Return a linear rise over a fraction of the run, then `fall` of the share that is left."""
    rise = max(1.0, warmup * total)
    if step + 1 < rise:
        return (step + 1) / rise
    return fall(max(0.0, (total - step) / max(1.0, total - rise + 1)))
