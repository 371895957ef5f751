"""Objectives: the terms that training makes small."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.multitask import MultiTaskModel


class Objective(Protocol):
    """Give each task of a batch one differentiable loss."""

    def __call__(self, model: MultiTaskModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the loss of every task in the batch."""
        ...
