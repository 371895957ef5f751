"""Forward: one batch of rows through a model, as outputs; small ones on CUDA by a graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.data.collate import Filling, Portion, collate, sequence_lengths
from palbert.data.tokenizer import Template
from palbert.model.multitask import MultiTaskModel
from palbert.runtime.graphs import Recorder

LARGEST = 4096
"""Tokens up to which a batch is replayed: larger ones keep the device busy by themselves."""
SMALLEST = 64
"""The smallest size that batches are filled up to; the next ones are twice as large each."""
MOST_GRAPHS = 64
"""Kinds of batches that are captured."""

log = logging.getLogger(__name__)


class Forward:
    """Compute the outputs of rows."""

    def __init__(
        self,
        model: MultiTaskModel,
        device: torch.device,
        arithmetic: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.model = model
        self.device = device
        self.arithmetic = arithmetic

    def __call__(self, portion: Portion, template: Template) -> Tensor:
        """Return the head's outputs, (rows, outputs), on the device."""
        return self.compute(collate([portion], template).to(self.device))

    def compute(self, batch: PackedBatch) -> Tensor:
        """Return the outputs of a batch of one part."""
        with self.arithmetic():
            outputs: dict[str, Tensor] = self.model(batch)
        return outputs[next(iter(batch.parts))]


@dataclass(frozen=True)
class _Captured:
    """A kind of batch: its inputs, its graph, and where its outputs come out."""

    batch: PackedBatch
    graph: torch.cuda.CUDAGraph
    outputs: Tensor


class ReplayedForward(Forward):
    """Replay small batches whose kind has come before: rows and tokens rounded up to powers of two.

    A small batch is over before Python has launched its kernels; a graph launches them all at once. Rows are filled
    up with copies of the last one, tokens with sequences of no meaning; their outputs are dropped. The graphs
    read the weights where they are, so that a model that was trained on answers anew.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kinds: dict[Hashable, _Captured | None] = {}
        self.failed = False
        self._recorder = Recorder(self.device)

    def __call__(self, portion: Portion, template: Template) -> Tensor:
        """Return the head's outputs, (rows, outputs), on the device."""
        filled = None if self.failed or self.model.training else fill_up(portion, template)
        if filled is None:
            return super().__call__(portion, template)
        batch = collate([filled], template)
        kind = batch.kind
        known = self.kinds.get(kind)
        if known is None:
            known = self._meet(kind, batch)
        if known is None:
            outputs = self._recorder.aside(lambda: self.compute(batch.to(self.device)))
        else:
            known.batch.copy_(batch)
            known.graph.replay()
            outputs = known.outputs.clone()
        return outputs[: len(portion.rows)]

    def _meet(self, kind: Hashable, batch: PackedBatch) -> _Captured | None:
        """Capture a kind that comes for the second time."""
        if kind not in self.kinds:
            if len(self.kinds) < MOST_GRAPHS:
                self.kinds[kind] = None
            return None
        static = batch.to(self.device)
        try:
            graph, outputs = self._recorder.record(lambda: self.compute(static))
        except RuntimeError as error:
            log.info("answers are not replayed from CUDA graphs: %s", str(error).splitlines()[0])
            self._recorder.recover()
            self.failed = True
            return None
        self.kinds[kind] = captured = _Captured(static, graph, outputs)
        return captured


def fill_up(portion: Portion, template: Template) -> Portion | None:
    """Round a portion up to powers of two, rows and tokens; None if it is too large to be worth it."""
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
