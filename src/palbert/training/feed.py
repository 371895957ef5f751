"""Feed: the batches of a step, given its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from palbert.batch import PackedBatch
from palbert.data.collate import Portion, collate
from palbert.data.ragged import Ragged
from palbert.data.streams import Stream
from palbert.data.tokenizer import Template


class Rows(Protocol):
    """What a feed needs of a data set."""

    @property
    def tokens(self) -> tuple[Ragged, ...]:
        """Token ids of each text column, without special tokens."""
        ...

    @property
    def labels(self) -> NDArray[Any] | None:
        """The labels of all rows, if there are any."""
        ...


@dataclass(frozen=True)
class TaskFeed:
    """Where one task's batches come from."""

    dataset: Rows
    stream: Stream
    max_length: int
    siamese: bool


class Feed:
    """Collate the next rows of each task of a step; cut the step into pieces to save memory.

    Args:
        tasks: Where each task's batches come from.
        template: The special tokens around texts.
        device: Where batches go.
        accumulation: Pieces that a step's rows are cut into.
        separate: Give each task of a step a batch of its own, in place of packing them together.
    """

    def __init__(
        self,
        tasks: Mapping[str, TaskFeed],
        *,
        template: Template,
        device: torch.device,
        accumulation: int = 1,
        separate: bool = False,
    ) -> None:
        self.tasks = dict(tasks)
        self.template = template
        self.device = device
        self.accumulation = accumulation
        self.separate = separate

    def __call__(self, tasks: Sequence[str], draws: Mapping[str, int]) -> list[PackedBatch]:
        """Return the batches of a step; `draws` says how often each task was drawn before."""
        batches = len(tasks) if self.separate else 1
        pieces: list[list[Portion]] = [[] for _ in range(self.accumulation * batches)]
        for number, task in enumerate(tasks):
            source = self.tasks[task]
            rows = source.stream.batch(draws[task])
            first = number % batches * self.accumulation
            for place, part in enumerate(np.array_split(rows, self.accumulation), first):
                if len(part):
                    pieces[place].append(self._portion(task, source, part, len(part) / len(rows)))
        return [collate(piece, self.template).to(self.device) for piece in pieces if piece]

    def _portion(self, task: str, source: TaskFeed, rows: np.ndarray, share: float) -> Portion:
        return Portion(
            task=task,
            tokens=source.dataset.tokens,
            rows=rows,
            max_length=source.max_length,
            siamese=source.siamese,
            labels=source.dataset.labels,
            share=share,
        )
