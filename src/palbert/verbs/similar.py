"""Similar: the training rows of a run that are nearest to a row, by the vectors that its answer is read from."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.build import load_training_set
from palbert.data.collate import Portion
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import Template, TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import DataError
from palbert.explanations.explained import refuse_unwanted
from palbert.explanations.explanation import SimilarRow
from palbert.inference.evaluator import Inference, Packing, refuse_broken
from palbert.inference.forward import Forward
from palbert.inference.questions import Question
from palbert.model.pooling import Pooling
from palbert.recipe.load import load_run_recipe
from palbert.registry.trust import is_trusting, trusting
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task

MOST_ROWS = 20_000
"""Rows of a training set that are compared: a random choice of more, always the same one."""
SMALLEST = 1e-12

log = logging.getLogger(__name__)


class HeadVectors(Question):
    """What the head sees of a row: its pooled vector, or for siamese pairs both, one after the other."""

    def read(self, states: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return (rows, width)."""
        pooling = self.model.poolings[part.task]
        assert isinstance(pooling, Pooling)
        vectors = self.model.pooled(states, batch, part, pooling=pooling)
        own = replace(batch, parts={part.task: part})
        seen = self.model.head_inputs(own, {part.task: vectors})[part.task]
        return torch.cat(seen.chunk(part.width), dim=1)


class SimilarRows:
    """Finds training rows near to others; the vectors of a task's rows are computed once and kept in memory.

    Args:
        run: The run, whose recipe names the training files; None for an encoder without tasks.
        inference: The run's model.
        tokenizer: The model's tokenizer.
    """

    def __init__(self, run: RunFolder | None, inference: Inference, tokenizer: TextTokenizer) -> None:
        self.run = run
        self.inference = inference
        self.tokenizer = tokenizer
        self._sets: dict[str, list[tuple[TrainingSet[Dataset], NDArray[np.int64], NDArray[np.float32]]]] = {}
        self._loading = threading.Lock()
        self._trust = is_trusting()  # as the run was loaded: its recipe is read later, perhaps in another thread

    def __call__(self, task: Task, tokens: tuple[Ragged, ...], *, count: int) -> list[list[SimilarRow]]:
        """Return the nearest training rows of each row, the nearest first.

        Args:
            task: The task.
            tokens: The rows, by column.
            count: How many there are for each row.
        """
        with self._loading, trusting(self._trust):
            if task.name not in self._sets:
                self._sets[task.name] = self._load(task)
        asked = self._vectors(task, tokens)
        near = [asked @ vectors.T for _, _, vectors in self._sets[task.name]]  # one (rows, training rows) per set
        return [self._nearest(task, [each[row] for each in near], count) for row in range(len(asked))]

    def _nearest(self, task: Task, cosines: Sequence[NDArray[np.float32]], count: int) -> list[SimilarRow]:
        """Return the rows of all sets with the largest cosines."""
        starts = np.cumsum([0, *map(len, cosines)])
        together = np.concatenate(cosines)
        best = np.argsort(-together, kind="stable")[:count]
        found = []
        for place in best:
            number = int(np.searchsorted(starts, place, side="right")) - 1
            each, rows, _ = self._sets[task.name][number]
            row = int(rows[place - starts[number]])
            labels = each.rows.labels
            found.append(
                SimilarRow(
                    texts=tuple(column[row] for column in each.rows.texts),
                    answer=None if labels is None else task.target.answer(task.target.gold(labels[row : row + 1])[0]),
                    similarity=float(together[place]),
                    set=each.name,
                    id=each.rows.ids[row],
                )
            )
        return found

    def _load(self, task: Task) -> list[tuple[TrainingSet[Dataset], NDArray[np.int64], NDArray[np.float32]]]:
        """Read a task's training rows, and compute their vectors."""
        if self.run is None:
            raise DataError("An encoder without tasks has no training rows.")
        recipe = load_run_recipe(self.run.recipe, check_files=True)
        known = recipe.provenance.data_sha256 if recipe.provenance else {}
        loaded = []
        for spec in recipe.sets.values():
            if spec.task.name != task.name or spec.triplets or spec.swapped or not spec.files.sources:
                continue
            refuse_unwanted()
            each = load_training_set(recipe, spec, self.tokenizer)
            _check_files(each.rows, known)
            rows = _some(len(each), each.name)
            tokens = tuple(column.take(rows) for column in each.rows.tokens)
            loaded.append((each, rows, self._vectors(task, tokens)))
        if not loaded:
            raise DataError(f"{self.run.path}: its recipe names no training rows of {task.name}.")
        return loaded

    @cached_property
    def _forward(self) -> Forward:
        return self.inference.ask(HeadVectors(self.inference.model))

    def _vectors(self, task: Task, tokens: tuple[Ragged, ...]) -> NDArray[np.float32]:
        """Return the vectors of rows, each of length 1; stop before a batch that nobody wants any more."""

        def forward(portion: Portion, template: Template) -> Tensor:
            refuse_unwanted()
            return self._forward(portion, template)

        width = self.inference.model.encoder.config.hidden_size * (2 if task.siamese else 1)
        found = self.inference.run(forward, tokens, Packing.of(task), width=width, title=f"vectors {task.name}")
        vectors: NDArray[np.float32] = refuse_broken(found, f"tasks.{task.name}: the vector").numpy()
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALLEST)
        return vectors


def _some(rows: int, name: str) -> NDArray[np.int64]:
    """Return all rows of a set, or a random choice of too many."""
    if rows <= MOST_ROWS:
        return np.arange(rows)
    log.warning("%s: %d of its %d rows, drawn at random, are compared.", name, MOST_ROWS, rows)
    return np.sort(np.random.default_rng(0).choice(rows, size=MOST_ROWS, replace=False))


def _check_files(rows: Dataset, known: dict[str, str]) -> None:
    """Raise DataError if a file is another one than the run was trained on."""
    changed = [file for file, sha256 in rows.files.items() if known.get(file, sha256) != sha256]
    if changed:
        raise DataError(
            f"{changed[0]}: is not the file that the run was trained on.",
            hint="Restore it; rows that the model has not seen say nothing about its answers.",
        )
