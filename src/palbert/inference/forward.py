"""Forward: what a model is asked, for one batch of rows; small batches on CUDA are replayed as graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.data.collate import Filling, Portion, collate, sequence_lengths
from palbert.data.tokenizer import Template
from palbert.inference.questions import Question
from palbert.runtime.graphs import Recorder
from palbert.runtime.replay import Replay, Work

LARGEST = 4096
"""Tokens up to which a batch is replayed; larger ones keep the device busy anyway."""
SMALLEST = 64
"""The smallest size that batches are filled up to; each next one is twice as large."""


class Forward:
    """Compute the outputs of rows."""

    def __init__(
        self,
        question: Question,
        device: torch.device,
        arithmetic: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.question = question
        self.device = device
        self.arithmetic = arithmetic

    def __call__(self, portion: Portion, template: Template) -> Tensor:
        """Return the outputs, (rows, outputs), on the device."""
        return self.compute(collate([portion], template).to(self.device))

    def compute(self, batch: PackedBatch) -> Tensor:
        """Return the outputs of a batch of one part."""
        with self.arithmetic():
            return self.question(batch)


class ReplayedForward(Forward):
    """Replay small batches as CUDA graphs, one per size: rows and tokens are rounded up to powers of two.

    A small batch is computed faster than Python launches its kernels; a graph launches them all at once. Rows are
    filled up with copies of the last one, tokens with meaningless sequences; their outputs are dropped. The graphs read
    the weights where they are, so they also serve a model that is trained further.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.replay = Replay(Recorder(self.device), what="answers")

    def __call__(self, portion: Portion, template: Template) -> Tensor:
        """Return the outputs, (rows, outputs), on the device."""
        filled = None if self.replay.obstacle or self.question.model.training else fill_up(portion, template)
        if filled is None:
            return super().__call__(portion, template)
        outputs = self.replay(self._work, [collate([filled], template)])["outputs"]
        return outputs[: len(portion.rows)]

    def _work(self, batches: Sequence[PackedBatch]) -> Work:
        """Compute the outputs of one batch."""
        yield from ()  # the host decides nothing
        [batch] = batches
        return {"outputs": self.compute(batch)}


def fill_up(portion: Portion, template: Template) -> Portion | None:
    """Round the rows and tokens of a portion up to powers of two; None if it is too large for a replay."""
    if len(portion.rows) > LARGEST:
        return None
    rows = 1 << (len(portion.rows) - 1).bit_length()
    chosen = np.pad(portion.rows, (0, rows - len(portion.rows)), mode="edge")
    columns = tuple(column.take(chosen) for column in portion.tokens)
    lengths = sequence_lengths(columns, template, max_length=portion.max_length, siamese=portion.siamese)
    tokens = int(lengths.sum())
    if tokens > LARGEST:
        return None
    size = max(SMALLEST, 1 << (tokens - 1).bit_length())
    slots = -(-size // portion.max_length)
    filling = Filling(size, slots=slots, longest=portion.max_length)
    return replace(portion, tokens=columns, rows=np.arange(rows), labels=None, filling=filling)
