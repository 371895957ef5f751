"""Stored: the rows of tasks below whose heads nothing is trained, as states that the encoder computes only once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.build.machine import Machine
from palbert.data.collate import Portion, collate, sequence_lengths
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged, offsets_of, ranges
from palbert.data.tokenizer import Template
from palbert.data.training_set import TrainingSet
from palbert.inference.embedding import WITHOUT_WEIGHTS
from palbert.inference.evaluator import TOKENS_PER_BATCH, by_length
from palbert.model.multitask import MultiTaskModel
from palbert.model.stored_states import heads_on_states
from palbert.runtime.progress import bar
from palbert.tasks.spec import Task

MOST = 4 * 2**30
"""The most bytes of states that are stored."""
NOTHING = np.zeros(0, np.int32)
NO_TEMPLATE = Template(before=NOTHING, between=NOTHING, after=NOTHING, types=(0, 0, 0, 0, 0))
"""Puts nothing around the states of a text: those of special tokens are among them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """Training sets and dev rows whose tokens are numbers of states in a table."""

    sets: dict[str, TrainingSet[Dataset]]
    dev: dict[str, Dataset]
    table: Tensor
    """The states, (states, hidden), on the device."""
    sequences: int
    """The texts, or joint pairs, that the encoder has read."""
    seconds: float
    """How long that took."""

    def reader(self, model: MultiTaskModel) -> MultiTaskModel:
        """Return what reads batches of these rows: the model's heads on the stored states."""
        return heads_on_states(model, self.table, {each.task for each in self.sets.values()})


def store_states(
    model: MultiTaskModel,
    tasks: Mapping[str, Task],
    sets: Mapping[str, TrainingSet[Dataset]],
    dev: Mapping[str, Dataset],
    *,
    template: Template,
    machine: Machine,
) -> Stored | None:
    """Compute what the heads of tasks see of their rows, without dropout; None if it is too large to be stored.

    A pooling without weights is applied before: there is one state per sequence. Otherwise, there is one per token.
    """
    rows = [_Rows.of_set(each, tasks[each.task], template) for each in sets.values()]
    rows += [_Rows.of_dev(tasks[name], dataset, template) for name, dataset in dev.items()]
    count, width = sum(each.states for each in rows), model.encoder.config.hidden_size
    if count * width * 4 > MOST:
        log.info("the encoder runs in every step: its states, %.1f GB, are too large to store", count * width * 4e-9)
        return None
    table = torch.empty(count, width, device=machine.device)
    start, first, numbered = time.perf_counter(), 0, []
    for each in rows:
        _compute(each, model, table[first : first + each.states], template, machine)
        numbered.append(each.numbered(first))
        first += each.states
    if machine.device.type == "cuda":
        torch.cuda.synchronize(machine.device)
    seconds = time.perf_counter() - start
    own_sets, own_dev = numbered[: len(sets)], numbered[len(sets) :]
    return Stored(
        {name: replace(each, rows=replace(each.rows, tokens=tokens))
         for (name, each), tokens in zip(sets.items(), own_sets, strict=True)},
        {name: replace(each, tokens=tokens) for (name, each), tokens in zip(dev.items(), own_dev, strict=True)},
        table, sum(each.lengths.size for each in rows), seconds,
    )  # fmt: skip


@dataclass(frozen=True)
class _Rows:
    """Rows of one set, and how they are packed."""

    task: str
    tokens: tuple[Ragged, ...]
    max_length: int
    siamese: bool
    pooled: bool
    """Whether one state per sequence is stored, and not one per token."""
    lengths: NDArray[np.int64]
    """Tokens of every sequence, (sequences of a row, rows)."""

    @classmethod
    def of_set(cls, each: TrainingSet[Dataset], task: Task, template: Template) -> _Rows:
        tokens, lengths = each.rows.tokens, each.sequence_lengths(template)
        return cls(task.name, tokens, each.max_length, each.siamese, task.pooling.name in WITHOUT_WEIGHTS, lengths)

    @classmethod
    def of_dev(cls, task: Task, dataset: Dataset, template: Template) -> _Rows:
        tokens, length, siamese = dataset.tokens, task.max_length, task.siamese
        lengths = sequence_lengths(tokens, template, max_length=length, siamese=siamese).reshape(-1, len(dataset))
        return cls(task.name, tokens, length, siamese, task.pooling.name in WITHOUT_WEIGHTS, lengths)

    @property
    def kept(self) -> NDArray[np.int64]:
        """States of every sequence, (sequences of a row, rows)."""
        return np.ones_like(self.lengths) if self.pooled else self.lengths

    @property
    def states(self) -> int:
        """How many states are stored."""
        return int(self.kept.sum())

    def numbered(self, first: int) -> tuple[Ragged, ...]:
        """Return the numbers of the states of every sequence, as columns of tokens; `first` is that of the first."""
        columns = []
        for kept in self.kept:
            offsets = offsets_of(kept)
            columns.append(Ragged(np.arange(first, first + offsets[-1], dtype=np.int32), offsets))
            first += int(offsets[-1])
        return tuple(columns)


def _compute(rows: _Rows, model: MultiTaskModel, table: Tensor, template: Template, machine: Machine) -> None:
    """Fill a table with the states of rows; texts of similar length share a batch."""
    pooling: Any = model.poolings[rows.task]
    kept, count = rows.kept.ravel(), rows.lengths.shape[1]
    starts = offsets_of(kept)[:-1]
    was_training = model.training
    model.eval()
    with torch.no_grad(), bar(f"states of {rows.task}", total=count) as line:
        for chosen in by_length(rows.lengths.sum(axis=0), TOKENS_PER_BATCH[machine.device.type]):
            portion = Portion(rows.task, rows.task, rows.tokens, chosen, rows.max_length, rows.siamese)
            batch = collate([portion], template).to(machine.device)
            with machine.arithmetic():
                states = model.states(batch)
                if rows.pooled:
                    states = pooling(states, batch, batch.parts[rows.task])
            sequences = (np.arange(len(rows.lengths))[:, None] * count + chosen).ravel()
            places = ranges(starts[sequences], kept[sequences])
            table[torch.from_numpy(places).to(machine.device)] = states.to(table.dtype)
            line.advance(len(chosen))
    model.train(was_training)
