"""Wording: numbers and scores as a reader likes to see them."""

from __future__ import annotations

from dataclasses import dataclass

from palbert.metrics import find_metric, is_metric

THIN_SPACE = "\u202f"
"""Narrow and unbreakable, between a number and its unit."""


@dataclass(frozen=True)
class Score:
    """One metric of one task; `low` and `high` bound its bootstrap interval where there is one."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better; assumed for a metric that palbert does not know."""
        return not is_metric(self.metric) or find_metric(self.metric).higher_is_better

    def gain_over(self, other: float) -> float:
        """Return by how much this score is better than `other`; negative if it is worse."""
        return self.value - other if self.higher_is_better else other - self.value

    def interval_text(self, *, as_percent: bool = False) -> str:
        """Write the interval; empty where there is none."""
        if self.low is None or self.high is None:
            return ""
        if as_percent:
            return f"{100 * self.low:.1f} to {percent(self.high)}"
        return f"{number(self.low)} to {number(self.high)}"

    def clearly_beats(self, other: float) -> bool:
        """Return whether the whole interval is better than `other`."""
        worst = self.low if self.higher_is_better else self.high
        return worst is not None and (worst > other if self.higher_is_better else worst < other)


def number(value: float | None, digits: int = 3) -> str:
    """Write a score, with a true minus sign; a missing one is a dash."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """Write a difference with its sign; one that rounds to zero has none, and a missing one is a dash."""
    if value is None:
        return "–"
    rounded = round(value, digits)
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else f"{0.0:.{digits}f}"


def percent(share: float, digits: int = 1) -> str:
    """Write a share of 1 as a percentage; a small share is written as below the smallest number, not as 0."""
    smallest = 10.0**-digits
    if 0.0 < 100.0 * share < smallest / 2.0:
        return f"<{THIN_SPACE}{smallest:.{digits}f}{THIN_SPACE}%"
    return f"{100.0 * share:.{digits}f}{THIN_SPACE}%".replace("-", "−")


def count(value: float) -> str:
    """Write a whole number with thousands separated."""
    return f"{round(value):,}"


def plural(value: int, noun: str) -> str:
    """Write a count with its noun, as in "1 row" and "1,000 rows"."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def duration(seconds: float) -> str:
    """Write a time in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f}{THIN_SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{THIN_SPACE}min {rest:02d}{THIN_SPACE}s"
    return f"{minutes // 60}{THIN_SPACE}h {minutes % 60:02d}{THIN_SPACE}min"


def size(value: float) -> str:
    """Write a number of parameters in thousands or millions."""
    if value >= 1e6:
        return f"{value / 1e6:.1f}{THIN_SPACE}M"
    return f"{value / 1e3:.1f}{THIN_SPACE}k" if value >= 1e3 else f"{value:.0f}"
