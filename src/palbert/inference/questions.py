"""Questions: what a model can be asked about the rows of one part of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from palbert.batch import PackedBatch
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

    @abstractmethod
    def __call__(self, batch: PackedBatch) -> Tensor:
        """Return one vector per row of the batch's only part, (rows, width)."""


class OneTask(Question):
    """The outputs of the head of the part's own task."""

    def __call__(self, batch: PackedBatch) -> Tensor:
        """Return (rows, outputs)."""
        outputs: dict[str, Tensor] = self.model(batch)
        return outputs[next(iter(batch.parts))]


class SeveralTasks(Question):
    """The outputs of several tasks next to each other, from one pass.

    Args:
        model: The model that is asked.
        tasks: The tasks, which `share_a_pass` has found to share one.
    """

    def __init__(self, model: MultiTaskModel, tasks: Sequence[str]) -> None:
        super().__init__(model)
        self.tasks = tasks

    def __call__(self, batch: PackedBatch) -> Tensor:
        """Return (rows, outputs of all tasks)."""
        outputs = self.model.answers_of(self.tasks, batch)
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

    def __call__(self, batch: PackedBatch) -> Tensor:
        """Return (rows, hidden)."""
        [part] = batch.parts.values()
        return self.model.pooled(self.model.states(batch), batch, part, pooling=self.pooling)


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
