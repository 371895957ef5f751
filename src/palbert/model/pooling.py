"""Pooling: from the states of all tokens to one vector a sequence, in float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.model.encoder import Encoder

Pooling = Callable[[Encoder, Tensor, PackedBatch, Part], Tensor]


def cls(encoder: Encoder, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
    """Take the state of each sequence's first token."""
    return hidden.index_select(0, batch.starts[part.sequences]).float()


def pooler(encoder: Encoder, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
    """Take the first token's state through the encoder's own tanh layer."""
    return encoder.pool(cls(encoder, hidden, batch, part))


def mean(encoder: Encoder, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
    """Average the states of all tokens of each sequence."""
    starts = batch.starts[part.sequences.start : part.sequences.stop + 1]
    return torch.segment_reduce(hidden[part.tokens].float(), "mean", lengths=starts.diff(), unsafe=True)
