"""Data summary: the numbers of every training set and split, and the page that shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from palbert.metrics import Values
from palbert.reporting import plots
from palbert.reporting.page import Plot, plot, render
from palbert.reporting.panels import panels_of
from palbert.reporting.wording import plural
from palbert.targets import Target


@dataclass(frozen=True)
class SplitSummary:
    """The rows of one training set, or of one task in another split."""

    name: str
    """The name of the training set or of the task."""
    split: str
    files: tuple[str, ...]
    rows: int
    """Rows that can be used."""
    labels: Values
    """As the target keeps them; empty for a split without labels."""
    target: Target
    """What an answer is."""
    lengths: Values
    """Tokens of every sequence, before truncation: one per row, two for siamese pairs, three for triplets."""
    max_length: int
    truncated: int
    """Sequences longer than `max_length`."""
    duplicates: int
    """Rows whose texts repeat an earlier row of the split."""
    empty: int
    """Rows without a text or a label."""
    leaked: int
    """Rows whose texts also occur in the train split; 0 for the train split itself."""
    examples: list[str]
    """A few findings, one sentence each."""
    dropped: int
    """Rows left out on purpose, because of their label."""
    overlap: Mapping[str, int] = field(default_factory=dict)
    """Training rows that also occur in dev or test, or share a text with them, by the kinds of `drop_overlap`."""

    advice: tuple[str, ...] = ()
    """Settings that the rows speak for, one sentence each; of a task's own training rows only."""

    @property
    def truncated_share(self) -> float:
        """The share of the sequences that are cut."""
        return self.truncated / max(len(self.lengths), 1)

    @property
    def shared(self) -> list[tuple[str, int]]:
        """The kinds of overlap of a training set that were found, with their rows."""
        return [(kind, rows) for kind, rows in self.overlap.items() if rows]

    @property
    def problems(self) -> list[str]:
        """What is wrong with the split, one phrase each."""
        found = (
            (self.empty, "without a text or a label"),
            (self.duplicates, "that repeat an earlier row"),
            (self.leaked, "also in the train split"),
        )
        return [f"{plural(number, 'row')} {phrase}" for number, phrase in found if number]


@dataclass(frozen=True)
class _TaskData:
    """One task of the page: its splits and its plots."""

    name: str
    anchor: str
    splits: list[SplitSummary]
    plots: list[Plot]


def render_data_report(title: str, summaries: Sequence[SplitSummary]) -> str:
    """Render what was found in the data as one HTML page that loads nothing from outside."""
    names = list(dict.fromkeys(summary.name for summary in summaries))
    tasks = [
        _task_data(name, f"task-{index}", [summary for summary in summaries if summary.name == name])
        for index, name in enumerate(names)
    ]
    return render("data.html.j2", title=title, summaries=summaries, tasks=tasks)


def _task_data(name: str, anchor: str, splits: list[SplitSummary]) -> _TaskData:
    drawn: list[Plot] = []
    labels = {split.split: split.labels for split in splits if len(split.labels)}
    if labels:
        panels = panels_of(splits[0].target)
        drawn += panels.label_plot(labels, caption="Labels, as shares of each split.", name=name)
    for split in splits:
        if len(split.lengths):
            drawn += plot(
                f"Token lengths, {split.split}: half are {np.median(split.lengths):.0f} or shorter.",
                plots.length_histogram,
                split.lengths,
                max_length=split.max_length,
                name=f"{name} ({split.split})",
            )
    return _TaskData(name, anchor, splits, drawn)
