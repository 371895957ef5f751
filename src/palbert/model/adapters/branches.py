"""Branches: what adapters add inside the encoder in one pass, each on the tokens of its own task."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class Additions:
    """What is added at four points of every layer; None adds nothing."""

    def query_key_value(self, layer: int, hidden: Tensor) -> Tensor | None:
        """Return what is added to the fused projection, (tokens, hidden) → (tokens, 3 × hidden)."""
        return None

    def after_attention(self, layer: int, output: Tensor) -> Tensor | None:
        """Return what is added to the output of attention, before its residual, (tokens, hidden)."""
        return None

    def after_feed_forward(self, layer: int, output: Tensor) -> Tensor | None:
        """Return what is added to the output of the feed-forward network, before its residual, (tokens, hidden)."""
        return None

    def parallel(self, layer: int, hidden: Tensor, sequences: Sequences) -> Tensor | None:
        """Return the output of a branch that runs in parallel to the whole layer, (tokens, hidden)."""
        return None


class Adapter(nn.Module, Additions):
    """A task's own parameters inside the encoder.

    A new adapter adds nothing: training starts from the plain encoder, exactly.
    """

    @property
    def shape(self) -> Hashable:
        """Adapters of equal shape are computed `together`; by default, each is computed on its own."""
        return id(self)

    def together(self, adapters: Sequence[Adapter], groups: Groups) -> Additions:
        """Return the additions of one pass for adapters of equal shape, one per group of consecutive tokens."""
        return self

    def weight_update(self, layer: int) -> Tensor | None:
        """Return what can be added to the fused projection's weight, (3 × hidden, hidden), to do without the adapter.

        None if the adapter does anything else.
        """
        return None


Addition = Callable[[Additions, slice, Sequences], Tensor | None]


class Branches(ABC):
    """What is added in a pass of the encoder; a block calls one method at each of the four points."""

    adapts_outputs = False
    """Whether anything is added to the output of attention or of the feed-forward network."""
    seeds: Sequence[Seeds] = ()
    """Where kernels of the branches take their random numbers from."""

    @abstractmethod
    def at(self, layer: int) -> Branches:
        """Return the branches of a layer; its input has just been computed."""

    @abstractmethod
    def ready(self) -> Branches:
        """Return the same branches, for an input that has just been computed."""

    @abstractmethod
    def query_key_value(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add to the fused projection of an input."""

    @abstractmethod
    def after_attention(self, total: Tensor) -> Tensor:
        """Add to the output of attention."""

    @abstractmethod
    def after_feed_forward(self, total: Tensor) -> Tensor:
        """Add to the output of the feed-forward network."""

    @abstractmethod
    def parallel(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add the branches that run in parallel to the whole layer, given its input."""


class NoBranches(Branches):
    """The plain encoder: nothing is added."""

    def at(self, layer: int) -> NoBranches:
        """Return itself."""
        return self

    def ready(self) -> NoBranches:
        """Return itself."""
        return self

    def query_key_value(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Return the projection."""
        return total

    def after_attention(self, total: Tensor) -> Tensor:
        """Return the output."""
        return total

    def after_feed_forward(self, total: Tensor) -> Tensor:
        """Return the output."""
        return total

    def parallel(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Return the residual."""
        return total


PLAIN = NoBranches()


class AdapterBranches(Branches):
    """Each task's adapter on its own slice of the batch; adapters of one shape on consecutive slices run together."""

    def __init__(self, adapters: Mapping[str, Adapter], batch: PackedBatch) -> None:
        self.layer, self.device, self.fork = 0, batch.ids.device, Fork()
        self.runs = [_run(owners, parts, batch) for owners, parts in _consecutive(adapters, batch)]
        self.adapts_outputs = any(_adapts_outputs(additions) for additions, *_ in self.runs)
        self.seeds = [sequences.seeds for *_, sequences in self.runs]

    def at(self, layer: int) -> AdapterBranches:
        """Return what is added in a layer."""
        placed = self.ready()
        placed.layer = layer
        return placed

    def ready(self) -> AdapterBranches:
        """Return a copy, because a layer may run again in the backward pass, after the others have run."""
        placed = copy(self)
        placed.fork = Fork.now(self.device)
        return placed

    def query_key_value(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add to the fused projection."""
        return self._add(total, lambda additions, tokens, _: additions.query_key_value(self.layer, hidden[tokens]))

    def after_attention(self, total: Tensor) -> Tensor:
        """Add to the output of attention."""
        return self._add(total, lambda additions, tokens, _: additions.after_attention(self.layer, total[tokens]))

    def after_feed_forward(self, total: Tensor) -> Tensor:
        """Add to the output of the feed-forward network."""
        return self._add(total, lambda additions, tokens, _: additions.after_feed_forward(self.layer, total[tokens]))

    def parallel(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add the branches that run in parallel to the layer."""

        def branch(additions: Additions, tokens: slice, sequences: Sequences) -> Tensor | None:
            if type(additions).parallel is Additions.parallel:
                return None
            shared = (hidden, sequences.starts, sequences.seeds, additions)
            return self.fork.run(lambda: additions.parallel(self.layer, hidden[tokens], sequences), shared)

        return self._add(total, branch)

    def _add(self, total: Tensor, addition: Addition) -> Tensor:
        """Add to each slice what its adapter returns; tokens of tasks without an adapter stay the same."""
        pieces, place = [], 0
        for additions, tokens, sequences in self.runs:
            added = addition(additions, tokens, sequences)
            if added is not None:
                pieces += [total[place : tokens.start], total[tokens] + added]
                place = tokens.stop
        if not pieces:
            return total
        # A batch of one task, or of tasks computed together, is one piece: nothing is copied.
        filled = [piece for piece in (*pieces, total[place:]) if len(piece)]
        return filled[0] if len(filled) == 1 else torch.cat(filled)


def _consecutive(adapters: Mapping[str, Adapter], batch: PackedBatch) -> Iterator[tuple[list[Adapter], list[Part]]]:
    """Group consecutive parts with adapters of one shape."""
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


def _run(owners: Sequence[Adapter], parts: Sequence[Part], batch: PackedBatch) -> tuple[Additions, slice, Sequences]:
    """Return the additions of consecutive parts, their tokens, and where their sequences lie in these tokens."""
    tokens = slice(parts[0].tokens.start, parts[-1].tokens.stop)
    sequences = Sequences.of(batch, parts=parts)
    # Consecutive parts of one adapter are one group.
    last = [place for place, (owner, after) in enumerate(zip_longest(owners, owners[1:])) if owner is not after]
    stops = [parts[place].tokens.stop - tokens.start for place in last]
    ends = torch.stack([sequences.starts[parts[place].slots.stop - parts[0].slots.start] for place in last])
    groups = Groups([stop - start for start, stop in pairwise((0, *stops))], ends)
    return owners[0].together([owners[place] for place in last], groups), tokens, sequences


def _adapts_outputs(additions: Additions) -> bool:
    """Whether anything is added to the output of attention or of the feed-forward network."""
    cls, places = type(additions), ("after_attention", "after_feed_forward")
    return any(getattr(cls, place) is not getattr(Additions, place) for place in places)
