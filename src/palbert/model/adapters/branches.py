"""Branches: the adapters of one pass, each on the tokens of its own task."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise, zip_longest

import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.model.adapters.fork import Fork
from palbert.model.adapters.groups import Groups
from palbert.model.attention import Sequences
from palbert.model.dropout import Seeds


class Terms:
    """What is added in four places of every layer; nothing, unless a method is overridden."""

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


class Adapter(nn.Module, Terms):
    """A task's own parts inside the encoder.

    A new adapter adds nothing: training starts from the plain encoder, exactly.
    """

    @property
    def shape(self) -> Hashable:
        """What adapters must have in common to be computed `together`; unless overridden, each is on its own."""
        return id(self)

    def together(self, adapters: Sequence[Adapter], groups: Groups) -> Terms:
        """Return the terms of one pass of adapters of this one's shape, for as many groups of tokens side by side."""
        return self


Term = Callable[[Terms, slice, Sequences], Tensor | None]


class NoBranches:
    """The plain encoder: nothing is added anywhere."""

    adds = False
    """Whether anything may be added to what a block gives."""
    seeds: Sequence[Seeds] = ()
    """Where kernels of the branches take their random numbers from."""

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
    """Each task's adapter on its own slice of the batch; those of one shape side by side on all of theirs at once."""

    def __init__(self, adapters: Mapping[str, Adapter], batch: PackedBatch) -> None:
        self.layer, self.device, self.fork = 0, batch.ids.device, Fork()
        self.runs = [_run(owners, parts, batch) for owners, parts in _side_by_side(adapters, batch)]
        self.adds = any(_adds(terms) for terms, *_ in self.runs)
        self.seeds = [sequences.seeds for *_, sequences in self.runs]

    def at(self, layer: int) -> Branches:
        """Return what is added in a layer."""
        placed = copy(self)  # one of its own: a layer may run again in the backward pass, when others have come since
        placed.layer, placed.fork = layer, Fork.now(self.device)
        return placed

    def query_key_value(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add to the projection."""
        return self._add(total, lambda terms, tokens, _: terms.query_key_value(self.layer, hidden[tokens]))

    def after_attention(self, total: Tensor) -> Tensor:
        """Add to attention's output."""
        return self._add(total, lambda terms, tokens, _: terms.after_attention(self.layer, total[tokens]))

    def after_feed_forward(self, total: Tensor) -> Tensor:
        """Add to the feed-forward block's output."""
        return self._add(total, lambda terms, tokens, _: terms.after_feed_forward(self.layer, total[tokens]))

    def beside(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add the branches that run beside the layer."""

        def term(terms: Terms, tokens: slice, sequences: Sequences) -> Tensor | None:
            if type(terms).beside is Terms.beside:
                return None
            shared = (hidden, sequences.starts, sequences.seeds, terms)
            return self.fork.run(lambda: terms.beside(self.layer, hidden[tokens], sequences), shared)

        return self._add(total, term)

    def _add(self, total: Tensor, term: Term) -> Tensor:
        """Put together what the slices become; tokens of tasks without an adapter stay as they are."""
        pieces, place = [], 0
        for terms, tokens, sequences in self.runs:
            added = term(terms, tokens, sequences)
            if added is not None:
                pieces += [total[place : tokens.start], total[tokens] + added]
                place = tokens.stop
        if not pieces:
            return total
        # A batch of one task, or of tasks computed together, is one piece: nothing is copied.
        filled = [piece for piece in (*pieces, total[place:]) if len(piece)]
        return filled[0] if len(filled) == 1 else torch.cat(filled)


def _side_by_side(adapters: Mapping[str, Adapter], batch: PackedBatch) -> Iterator[tuple[list[Adapter], list[Part]]]:
    """Gather parts whose tokens follow each other and whose adapters have one shape."""
    owners: list[Adapter] = []
    parts: list[Part] = []
    for part in batch.parts.values():
        adapter = adapters.get(part.task)
        if adapter is None:
            continue
        if parts and (adapter.shape != owners[-1].shape or part.tokens.start != parts[-1].tokens.stop):
            yield owners, parts
            owners, parts = [], []
        owners.append(adapter)
        parts.append(part)
    if parts:
        yield owners, parts


def _run(owners: Sequence[Adapter], parts: Sequence[Part], batch: PackedBatch) -> tuple[Terms, slice, Sequences]:
    """Return what computes the terms of parts side by side, their tokens, and where their sequences lie in these."""
    tokens = slice(parts[0].tokens.start, parts[-1].tokens.stop)
    sequences = Sequences.of(batch, parts=parts)
    # Parts of one adapter after each other are one group.
    last = [place for place, (owner, after) in enumerate(zip_longest(owners, owners[1:])) if owner is not after]
    stops = [parts[place].tokens.stop - tokens.start for place in last]
    ends = torch.stack([sequences.starts[parts[place].slots.stop - parts[0].slots.start] for place in last])
    groups = Groups([stop - start for start, stop in pairwise((0, *stops))], ends)
    return owners[0].together([owners[place] for place in last], groups), tokens, sequences


def _adds(terms: Terms) -> bool:
    """Say whether terms are added to what a block gives."""
    cls = type(terms)
    return cls.after_attention is not Terms.after_attention or cls.after_feed_forward is not Terms.after_feed_forward
