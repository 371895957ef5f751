"""Questions: what a model can be asked about the rows of one part of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Pooling
from palbert.tasks.spec import Task


class Question(ABC):
    """Something that one pass of the encoder answers for each row, as one vector.

    Args:
        model: The model that is asked.
    """

    def __init__(self, model: MultiTaskModel) -> None:
        self.model = model

    def __call__(self, batch: PackedBatch) -> Tensor:
        """Return one vector per row of the batch's only part, (rows, width)."""
        [part] = batch.parts.values()
        return self.read(self.model.states(batch), batch, part)

    @abstractmethod
    def read(self, states: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return one vector per row of a part, (rows, width), from the encoder's output for the whole batch."""


class OneTask(Question):
    """The outputs of the head of the part's own task."""

    def read(self, states: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return (rows, outputs)."""
        return self.model.answers_of([part.task], states, batch, part)[part.task]


class SeveralTasks(Question):
    """The outputs of several tasks next to each other, from one pass.

    Args:
        model: The model that is asked.
        tasks: The tasks, which `share_a_pass` has found to share one.
    """

    def __init__(self, model: MultiTaskModel, tasks: Sequence[str]) -> None:
        super().__init__(model)
        self.tasks = tasks

    def read(self, states: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return (rows, outputs of all tasks)."""
        outputs = self.model.answers_of(self.tasks, states, batch, part)
        return torch.cat([outputs[task] for task in self.tasks], dim=1)


class PooledStates(Question):
    """A vector per text: the pooled states of its tokens.

    Args:
        model: The model that is asked; it needs no heads.
        pooling: Turns the states of a text's tokens into one vector.
    """

    def __init__(self, model: MultiTaskModel, pooling: Pooling) -> None:
        super().__init__(model)
        self.pooling = pooling

    def read(self, states: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return (rows, hidden)."""
        return self.model.pooled(states, batch, part, pooling=self.pooling)


def share_a_pass(tasks: Iterable[Task], adapter_of: Mapping[str, str]) -> list[list[Task]]:
    """Group tasks that see the same tokens through the same encoder: one pass answers all tasks of a group.

    Args:
        tasks: The tasks to be asked.
        adapter_of: The owner of each task's adapter, for tasks that have one.
    """
    groups: dict[tuple[object, ...], list[Task]] = {}
    for task in tasks:
        key = (task.kind, task.siamese, task.max_length, adapter_of.get(task.name))
        groups.setdefault(key, []).append(task)
    return list(groups.values())
