"""Branches: the adapters of one pass, each on the tokens of its own task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy

import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.model.attention import Sequences


class Adapter(nn.Module):
    """A task's own parts inside the encoder: terms that are added in four places of every layer.

    A new adapter adds nothing: training starts from the plain encoder, exactly.
    """

    def query_key_value(self, layer: int, hidden: Tensor) -> Tensor | None:
        """Add to the fused projection, (tokens, hidden) → (tokens, 3 × hidden)."""
        return None

    def after_attention(self, layer: int, output: Tensor) -> Tensor | None:
        """Add to what attention gives, before its residual, (tokens, hidden)."""
        return None

    def after_feed_forward(self, layer: int, output: Tensor) -> Tensor | None:
        """Add to what the feed-forward block gives, before its residual, (tokens, hidden)."""
        return None

    def beside(self, layer: int, hidden: Tensor, sequences: Sequences) -> Tensor | None:
        """Add a branch that runs beside the whole layer, inside its last norm, (tokens, hidden)."""
        return None


Term = Callable[[Adapter, slice, Sequences], Tensor | None]


class NoBranches:
    """The plain encoder: nothing is added anywhere."""

    adds = False
    """Whether anything may be added to what a block gives."""

    def at(self, layer: int) -> NoBranches:
        """Return what is added in a layer."""
        return self

    def query_key_value(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Return the projection as it is."""
        return total

    def after_attention(self, total: Tensor) -> Tensor:
        """Return attention's output as it is."""
        return total

    def after_feed_forward(self, total: Tensor) -> Tensor:
        """Return the feed-forward block's output as it is."""
        return total

    def beside(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Return what is added to the last residual as it is."""
        return total


PLAIN = NoBranches()


class Branches(NoBranches):
    """Each task's adapter on its own slice of the batch."""

    adds = True

    def __init__(self, adapters: Mapping[str, Adapter], batch: PackedBatch) -> None:
        self.layer = 0
        self.parts = [
            (adapters[batch.task_of(name)], part.tokens, _sequences(batch, part.slots, part.tokens))
            for name, part in batch.parts.items()
            if batch.task_of(name) in adapters
        ]

    def at(self, layer: int) -> Branches:
        """Return what is added in a layer."""
        placed = copy(self)  # one of its own: a layer may run again in the backward pass, when others have come since
        placed.layer = layer
        return placed

    def query_key_value(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add to the projection."""
        return self._add(total, lambda adapter, tokens, _: adapter.query_key_value(self.layer, hidden[tokens]))

    def after_attention(self, total: Tensor) -> Tensor:
        """Add to attention's output."""
        return self._add(total, lambda adapter, tokens, _: adapter.after_attention(self.layer, total[tokens]))

    def after_feed_forward(self, total: Tensor) -> Tensor:
        """Add to the feed-forward block's output."""
        return self._add(total, lambda adapter, tokens, _: adapter.after_feed_forward(self.layer, total[tokens]))

    def beside(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add the branches that run beside the layer."""
        return self._add(
            total, lambda adapter, tokens, sequences: adapter.beside(self.layer, hidden[tokens], sequences)
        )

    def _add(self, total: Tensor, term: Term) -> Tensor:
        """Put together what the slices become; tokens of tasks without an adapter stay as they are."""
        pieces, place = [], 0
        for adapter, tokens, sequences in self.parts:
            added = term(adapter, tokens, sequences)
            if added is not None:
                pieces += [total[place : tokens.start], total[tokens] + added]
                place = tokens.stop
        if not pieces:
            return total
        # A batch of one task, as most are, is one piece: nothing is copied.
        filled = [piece for piece in (*pieces, total[place:]) if len(piece)]
        return filled[0] if len(filled) == 1 else torch.cat(filled)


def _sequences(batch: PackedBatch, sequences: slice, tokens: slice) -> Sequences:
    """Return where a task's sequences lie within its own tokens."""
    starts = batch.starts[sequences.start : sequences.stop + 1]
    return Sequences(starts - starts[0], tokens=tokens.stop - tokens.start, max_length=batch.max_length)
