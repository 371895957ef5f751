"""Poolings: from the states of all tokens to one vector per sequence, in float32."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.errors import PalbertError
from palbert.model.attention.rectangle import CLOSED
from palbert.options import check_number


class Pooling(nn.Module, ABC):
    """One vector per sequence of a task.

    A pooling is trained and saved with the task's head. It sees the encoder's output, never the encoder itself, so
    that gradients of the encoder can be split by task.

    Args:
        hidden_size: Width of a token's state.
    """

    through_pooler: ClassVar[bool] = False
    """Whether the vectors then pass through the encoder's own tanh layer, which all tasks share."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size

    @abstractmethod
    def forward(self, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return the vectors of one part of a batch.

        Args:
            hidden: The encoder's output for the whole batch, (tokens, hidden).
            batch: Says where sequences start: `batch.starts[part.sequences]`.
            part: Says which sequences and which tokens are the part's own.

        Returns:
            (sequences of the part, hidden), in float32.
        """

    def padded(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the same vectors from padded texts: what exported graphs compute. Optional.

        Args:
            states: The encoder's output, (texts, length, hidden).
            mask: 1 for tokens of the text, 0 for padding, (texts, length).

        Returns:
            (texts, hidden), in float32.
        """
        raise PalbertError(
            f"The pooling {type(self).__name__} does not say what it does with padded texts.",
            hint="Give it a method `padded(states, mask)`.",
        )


class Cls(Pooling):
    """Take the state of each sequence's first token."""

    def forward(self, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return (sequences, hidden)."""
        return hidden.index_select(0, batch.starts[part.sequences]).float()

    def padded(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return (texts, hidden)."""
        return states[:, 0].float()


class Pooler(Cls):
    """Take the first token's state through the encoder's own tanh layer."""

    through_pooler = True


class Mean(Pooling):
    """Average the states of all tokens of each sequence."""

    def forward(self, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return (sequences, hidden)."""
        starts = batch.starts[part.sequences.start : part.sequences.stop + 1]
        return torch.segment_reduce(hidden[part.tokens].float(), "mean", lengths=starts.diff(), unsafe=True)

    def padded(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return (texts, hidden)."""
        weights = mask.float()[:, :, None]
        return (states.float() * weights).sum(1) / weights.sum(1)


class Attention(Pooling):
    """Average the states of each sequence, weighted by softmax(w · h) with a trained w.

    w starts at 0: training begins with the plain mean. The score is linear in the state; arXiv:1703.03130 has a tanh
    layer in front of it and several scores.

    Args:
        hidden_size: Width of a token's state.
        dropout: Share of the tokens' weights that are dropped in training.
    """

    def __init__(self, hidden_size: int, *, dropout: float = 0.0) -> None:
        super().__init__(hidden_size)
        self.weight = nn.Parameter(torch.zeros(hidden_size))
        self.dropout = nn.Dropout(check_number("dropout", dropout, least=0, below=1))

    def forward(self, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return (sequences, hidden)."""
        states = hidden[part.tokens].float()
        lengths = batch.starts[part.slots.start : part.slots.stop + 1].diff()  # with the sequences that fill the part
        scores = (states * self.weight).sum(1, keepdim=True)  # (tokens, 1); a product would be rounded by autocast
        highest = torch.segment_reduce(scores.detach(), "max", lengths=lengths, unsafe=True)
        each = highest.repeat_interleave(lengths, dim=0, output_size=len(states))  # the size saves waiting for CUDA
        weights = (scores - each).exp()
        # Divided after the sums: no gradient is scattered, so that results on CUDA are the same every time.
        total = torch.segment_reduce(weights, "sum", lengths=lengths, unsafe=True)
        vectors = torch.segment_reduce(self.dropout(weights) * states, "sum", lengths=lengths, unsafe=True)
        own = part.sequences.stop - part.sequences.start
        return vectors[:own] / total[:own]

    def padded(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return (texts, hidden)."""
        states = states.float()
        scores = (states * self.weight).sum(2).masked_fill(mask == 0, CLOSED)
        return (scores.softmax(1)[:, :, None] * states).sum(1)
