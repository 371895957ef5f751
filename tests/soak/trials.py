"""Trials: what every part of the soak is made of, how they are counted, and what was found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Trial:
    """One thing to try, or a batch of them.

    Args:
        part: The table of the page that counts it.
        row: The row of that table.
        column: The column of that table.
        attempt: Tries it; returns what is wrong, by the name that repeats it (`python -m tests.soak --repeat NAME`).
        count: How many there are.
    """

    part: str
    row: str
    column: str
    attempt: Callable[[], dict[str, str]]
    count: int = 1


@dataclass
class Tally:
    """What was tried and found."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Trials by part, row and column."""
    findings: dict[str, str] = field(default_factory=dict)
    """What was wrong, by the name of the trial."""
    plans: dict[str, int] = field(default_factory=dict)
    """How many faults each job can have."""

    def run(self, trial: Trial) -> None:
        """Try it and count it."""
        self.findings.update(trial.attempt())
        self.counts[trial.part, trial.row, trial.column] += trial.count

    def add(self, other: Tally) -> None:
        """Add what another process has tried."""
        self.counts.update(other.counts)
        self.findings.update(other.findings)
        self.plans.update(other.plans)

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        counts = [[*key, count] for key, count in sorted(self.counts.items())]
        content = json.dumps({"counts": counts, "findings": self.findings, "plans": self.plans})
        path.with_suffix(".new").write_text(content, "utf-8")
        path.with_suffix(".new").replace(path)  # a worker may end at any time

    @classmethod
    def read(cls, path: Path) -> Tally:
        """Read what `write` wrote."""
        found = json.loads(path.read_text("utf-8"))
        counts = Counter({(part, row, column): count for part, row, column, count in found["counts"]})
        return cls(counts, found["findings"], found["plans"])
