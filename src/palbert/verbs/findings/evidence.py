"""Evidence: everything about a run that findings are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from palbert.data.dataset import Dataset
from palbert.data.tokenizer import Template
from palbert.data.training_set import TrainingSet
from palbert.inference.results import TaskResult
from palbert.recipe.schema import Recipe


@dataclass(frozen=True)
class Evidence:
    """A run and its evaluation on one split."""

    recipe: Recipe
    train: Mapping[str, TrainingSet[Dataset]]
    """The training sets by name."""
    datasets: Mapping[str, Dataset]
    """The scored rows by task."""
    template: Template
    """How sequences are made from texts, for the number of rows that are cut."""
    results: Sequence[TaskResult] = ()
    intervals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Ends of the interval of every task's main metric, "low" and "high"."""
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The main metric of every task, by baseline."""
    records: Sequence[Mapping[str, Any]] = ()
    """The lines of metrics.jsonl."""

    @property
    def split(self) -> str:
        """The split that is scored."""
        [split] = {dataset.split for dataset in self.datasets.values()}
        return split

    @property
    def all_rows(self) -> Iterator[tuple[str, Dataset]]:
        """The rows of every training set and of every scored split, with the name of the set or the task."""
        if self.split != "train":
            yield from self.train_rows
        yield from self.datasets.items()

    @property
    def train_rows(self) -> Iterator[tuple[str, Dataset]]:
        """The rows of every training set, with its name."""
        yield from ((each.name, each.rows) for each in self.train.values())

    def trains_on_scored_files(self, task: str) -> bool:
        """Whether the rows of the scored split are meant to be training rows too."""
        spec = self.recipe.tasks[task]
        shared = {source.path for source in spec.train} & {source.path for source in getattr(spec, self.split)}
        return bool(shared) or (self.split == "dev" and spec.train_on_dev)

    def records_of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the records of one kind."""
        return [record for record in self.records if record.get("kind") == kind]
