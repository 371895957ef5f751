"""Baselines: the scores that a trained model has to beat."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from palbert.build import Machine
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import Template
from palbert.data.training_set import TrainingSet
from palbert.errors import RunFolderError
from palbert.inference.evaluator import constant_baseline, score
from palbert.inference.vectors import MeanVectors
from palbert.model.comparison import compare
from palbert.model.encoder import Encoder
from palbert.recipe.schema import Recipe
from palbert.runtime.files import write_text
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import RunFolder
from palbert.targets import Decoded
from palbert.targets.probe import Features, Probe
from palbert.tasks.spec import Task

log = logging.getLogger(__name__)

CONSTANT, UNTRAINED, PROBE, COSINE = "majority / mean", "untrained heads", "linear probe", "cosine"
PROBED_ROWS = 10_000
"""A probe is fitted on at most so many training rows of a task, spread evenly over the file."""

TIE = 1.1
"""The cosine alone counts as good as the probe if its loss is at most so many times the probe's: it cannot overfit."""

Scores = dict[str, dict[str, float]]
"""The main metric of every task, by baseline and task."""


@dataclass(frozen=True)
class FrozenTask:
    """One task's rows as vectors of an encoder that is not trained."""

    task: Task
    rows: Dataset
    """The training rows that the probe is fitted on."""
    train: Features
    """Their features: mean vectors, and for pairs what their comparison gives."""
    dev: Features
    """The features of the dev rows."""

    @cached_property
    def probe(self) -> Probe | None:
        """The linear model on these features; None if the target has none."""
        assert self.rows.labels is not None
        return self.task.target.probe(self.train, self.rows.labels) if self._has("probe") else None

    @cached_property
    def similarity(self) -> float | None:
        """The highest label, if the plain cosine of a pair predicts held-out labels as well as the probe; else None."""
        labels = self.rows.labels
        if self.task.kind != "pair" or self.probe is None or labels is None or not self._has("of_cosine"):
            return None
        alone = self.task.target.probe([self.train[-1]], labels)
        fits = alone is not None and alone.weight[0, 0] > 0 and alone.loss <= self.probe.loss * TIE
        return float(labels.max()) if fits and labels.min() >= 0 and labels.max() > 0 else None

    def scores(self, dev: Dataset) -> dict[str, float]:
        """Return the main metric on the dev rows, by baseline."""
        found: dict[str, float] = {}
        if self.probe is not None:
            decoded = self.task.target.decode(torch.from_numpy(self.probe(self.dev)))
            found[PROBE] = self._score(dev, decoded)
        if self.task.kind == "pair" and self._has("of_cosine"):
            by_cosine = self.task.target.of_cosine(self.dev[-1][:, 0])
            if by_cosine is not None:
                found[COSINE] = self._score(dev, Decoded(by_cosine.astype(np.float64), None))
        return found

    def _has(self, method: str) -> bool:
        """Whether the target's own class defines a method: one that it inherits may not fit its labels or outputs."""
        return method in vars(type(self.task.target))

    def _score(self, dev: Dataset, decoded: Decoded) -> float:
        return score(self.task, dev, decoded).scores[self.task.metric]


class FrozenEncoder:
    """What an encoder knows about all tasks before it is trained.

    Nothing is drawn at random here, so that the run after it is the same with and without it.

    Args:
        recipe: The tasks.
        encoder: The encoder, on the machine's device.
        train: The training sets by name.
        dev: The dev rows of each task.
        template: Puts special tokens around texts.
        machine: Where to compute.
    """

    def __init__(
        self,
        recipe: Recipe,
        encoder: Encoder,
        *,
        train: Mapping[str, TrainingSet[Dataset]],
        dev: Mapping[str, Dataset],
        template: Template,
        machine: Machine,
    ) -> None:
        self.recipe = recipe
        self.train = train
        self.dev = dev
        self.vectors = MeanVectors(encoder, template=template, device=machine.device, arithmetic=machine.arithmetic)

    @cached_property
    def tasks(self) -> dict[str, FrozenTask]:
        """Every task's rows as vectors."""
        return {name: self._freeze(task) for name, task in self.recipe.tasks.items() if name in self.dev}

    def _freeze(self, task: Task) -> FrozenTask:
        rows = self.train[task.name].rows
        if len(rows) > PROBED_ROWS:
            log.info(
                "%s: the linear probe is fitted on %s of its %s rows", task.name, f"{PROBED_ROWS:,}", f"{len(rows):,}"
            )
            rows = rows.take(np.linspace(0, len(rows) - 1, PROBED_ROWS).astype(np.int64))
        return FrozenTask(task, rows, self._features(task, rows), self._features(task, self.dev[task.name]))

    def _features(self, task: Task, rows: Dataset) -> Features:
        """Return the vector of each text, or of a pair what both give together."""
        title = f"linear probe of {task.name}"
        vectors = self.vectors(rows.tokens, max_length=task.max_length, title=title)
        if task.kind == "single":
            return vectors
        return tuple(group.numpy() for group in compare(*map(torch.from_numpy, vectors)))

    def scores(self) -> Scores:
        """Return the main metric of every task that has one, by baseline."""
        found: Scores = {}
        for name, frozen in self.tasks.items():
            for baseline, value in frozen.scores(self.dev[name]).items():
                found.setdefault(baseline, {})[name] = value
        for baseline, values in found.items():
            log.info("%s: %s", baseline, ", ".join(f"{name} {value:.3f}" for name, value in values.items()))
        return found


def write_baselines(folder: RunFolder, scores: Scores) -> None:
    """Keep the scores on dev for evaluations to come."""
    write_text(folder.baselines, json.dumps(scores, indent=1, ensure_ascii=False) + "\n")


def read_baselines(folder: RunFolder, split: str) -> Scores:
    """Return the scores on dev that training has kept; none for other splits, and for runs of older versions."""
    if split != "dev" or not folder.baselines.is_file():
        return {}
    return read_object(folder.baselines, raises=RunFolderError, hint="Remove it: the report then has no baselines.")


def baselines_of(
    recipe: Recipe,
    train: Mapping[str, TrainingSet[Dataset]],
    datasets: Mapping[str, Dataset],
    records: list[dict[str, Any]],
    split: str,
    kept: Scores | None = None,
) -> Scores:
    """Return the main metric of every task, by baseline; `kept` are those that training has measured."""
    found = {
        CONSTANT: {
            name: constant_baseline(recipe.tasks[name], train[name].rows, dataset) for name, dataset in datasets.items()
        }
    }
    for record in records:
        if record["kind"] == "evaluation" and record["epoch"] == 0 and split == "dev":
            trained = {name for stage in recipe.stages for name in stage.tasks}
            untrained = {
                name: record["tasks"][name][task.metric]
                for name, task in recipe.tasks.items()
                if name in trained and task.head_start != "probe"  # which is the linear probe, or the cosine
            }
            found |= {UNTRAINED: untrained} if untrained else {}
    return {**found, **(kept or {})}
