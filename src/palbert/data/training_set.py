"""TrainingSet: the rows of one training set, with everything that making batches of them takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from palbert.data.collate import Portion, sequence_lengths
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged
from palbert.data.row_weights import training_weights
from palbert.data.tokenizer import Template
from palbert.tasks.sets import SetSpec


class TokenizedRows(Protocol):
    """Rows that batches can be made of: a `Dataset` or a `Corpus`."""

    @property
    def tokens(self) -> tuple[Ragged, ...]:
        """Token ids of each text column, without special tokens."""
        ...

    @property
    def labels(self) -> NDArray[Any] | None:
        """The labels of all rows, if there are any."""
        ...

    def __len__(self) -> int: ...


RowsType = TypeVar("RowsType", bound=TokenizedRows, covariant=True)


@dataclass(frozen=True)
class TrainingSet(Generic[RowsType]):
    """One training set, from loading to the batch."""

    name: str
    """Names the set in samplers, batches, losses, logs and reports."""
    task: str
    """The task whose pooling, adapter and head the rows go through."""
    rows: RowsType
    """The rows, tokenized."""
    max_length: int
    """Tokens per sequence, special tokens included."""
    batch_size: int
    """Rows per step."""
    siamese: bool = False
    """Whether each text of a row is a sequence of its own."""
    triplets: bool = False
    """Whether the rows are triplets, which terms contrast and no head answers."""
    together: int = 1
    """How many neighbouring rows are always in the same batch: 2 for rows and their copies."""
    weights: NDArray[np.float32] | None = None
    """What the loss of each row is multiplied by, (rows,), with mean 1; None where all rows count alike."""
    teacher_outputs: NDArray[np.float32] | None = None
    """The outputs of the task's teachers, (rows, teachers, outputs), if it has teachers."""

    @staticmethod
    def of(spec: SetSpec, rows: Dataset, *, batch_size: int) -> TrainingSet[Dataset]:
        """Return the set that a recipe describes, with its rows."""
        task = spec.task
        weights = training_weights(
            rows.weights,
            rows.labels,
            () if spec.triplets else task.class_weights,
            target=task.target,
            name=spec.name,
        )
        return TrainingSet(
            name=spec.name,
            task=task.name,
            rows=rows,
            max_length=spec.max_length,
            batch_size=batch_size,
            siamese=spec.siamese,
            triplets=spec.triplets,
            together=2 if spec.swapped else 1,
            weights=weights,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def sequence_lengths(self, template: Template) -> NDArray[np.int64]:
        """Return the tokens of every sequence of every row, (sequences, rows)."""
        lengths = sequence_lengths(self.rows.tokens, template, max_length=self.max_length, siamese=self.siamese)
        return lengths.reshape(-1, len(self.rows))

    def portion(self, chosen: NDArray[np.int64], *, share: float = 1.0, rows_by_rank: tuple[int, ...] = ()) -> Portion:
        """Return some of the rows for a batch.

        Args:
            chosen: The rows.
            share: Their share of the step's rows of this set.
            rows_by_rank: The rows of the step that each process has.
        """
        return Portion(
            name=self.name,
            task=self.task,
            tokens=self.rows.tokens,
            rows=chosen,
            max_length=self.max_length,
            siamese=self.siamese,
            labels=self.rows.labels,
            weights=self.weights,
            teacher_outputs=self.teacher_outputs,
            share=share,
            rows_by_rank=rows_by_rank,
            answered=not self.triplets,
        )
