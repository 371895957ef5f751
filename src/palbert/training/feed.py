"""Feed: makes the batches of each step from the training sets that the sampler chose."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import torch

from palbert.batch import PackedBatch
from palbert.data.collate import Filling, Portion, collate
from palbert.data.streams import Stream, cut
from palbert.data.tokenizer import Template
from palbert.data.training_set import TokenizedRows, TrainingSet
from palbert.runtime.distributed import Ranks
from palbert.training.buckets import Buckets

AHEAD = 2
"""Steps whose batches are made in advance."""


Sets = Mapping[str, TrainingSet[TokenizedRows]]


class Feed:
    """Collate the next rows of each set of a step; cut the step into pieces to save memory.

    Args:
        sets: The training sets by name.
        seed: Shuffles the rows of every set.
        template: The special tokens around texts.
        device: Where batches go.
        accumulation: Pieces that a step's rows are cut into.
        separate: Make one batch per set of a step instead of packing all sets together.
        ranks: The processes that the rows are divided among, before they are cut.
        buckets: The sizes that each set's batches are padded to; batches are not padded unless given.
    """

    def __init__(
        self,
        sets: Sets,
        *,
        seed: int,
        template: Template,
        device: torch.device,
        accumulation: int = 1,
        separate: bool = False,
        ranks: Ranks | None = None,
        buckets: Mapping[str, Buckets] | None = None,
    ) -> None:
        self.sets = dict(sets)
        self.streams = {
            name: Stream(name, rows=len(each), batch_size=each.batch_size, seed=seed, together=each.together)
            for name, each in sets.items()
        }
        self.template = template
        self.device = device
        self.accumulation = accumulation
        self.separate = separate
        self.ranks = ranks or Ranks()
        self.buckets = buckets
        self.waited = 0.0  # seconds that steps spent waiting for their batches

    def __call__(self, sets: Sequence[str], draws: Mapping[str, int]) -> list[PackedBatch]:
        """Return the batches of a step; `draws` counts the rows drawn from each set before it."""
        return [batch.to(self.device) for batch in self._collate(sets, draws)]

    def count(self, sets: Sequence[str], draws: dict[str, int]) -> None:
        """Add the rows of a step to those drawn before."""
        for name in sets:
            draws[name] += self.sets[name].batch_size

    def ahead(
        self, plan: Iterable[Sequence[str]], draws: Mapping[str, int]
    ) -> Generator[list[PackedBatch], None, None]:
        """Yield the batches of every step of a plan; a thread makes them before the step needs them."""
        draws = dict(draws)
        coming: deque[Future[list[PackedBatch]]] = deque()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="feed") as thread:
            for sets in plan:
                coming.append(thread.submit(self._collate, sets, dict(draws)))
                self.count(sets, draws)
                if len(coming) > AHEAD:
                    yield self._take(coming.popleft())
            while coming:
                yield self._take(coming.popleft())

    def _take(self, coming: Future[list[PackedBatch]]) -> list[PackedBatch]:
        start = time.perf_counter()
        batches = coming.result()
        self.waited += time.perf_counter() - start
        return batches

    def _collate(self, sets: Sequence[str], draws: Mapping[str, int]) -> list[PackedBatch]:
        batches = len(sets) if self.separate else 1
        pieces: list[list[Portion]] = [[] for _ in range(self.accumulation * batches)]
        for number, name in enumerate(sets):
            rows = self.streams[name].batch(draws[name])
            together = self.sets[name].together
            of_ranks = cut(rows, self.ranks.size, together=together)
            by_rank = tuple(map(len, of_ranks))
            # With fewer rows than processes, some take a row with share 0, so that all have the same sets in a step.
            counted, own = bool(by_rank[self.ranks.rank]), of_ranks[self.ranks.rank]
            own = own if counted else rows[-together:]
            first = number % batches * self.accumulation
            for place, part in enumerate(cut(own, self.accumulation, together=together), first):
                if len(part):
                    share = counted * len(part) / len(rows)
                    pieces[place].append(self.sets[name].portion(part, share=share, rows_by_rank=by_rank))
        packed = [collate(piece, self.template) for piece in self._filled([piece for piece in pieces if piece])]
        # Copies from pinned memory run while the host continues.
        return [batch.pinned() for batch in packed] if self.device.type == "cuda" else packed

    def _filled(self, pieces: list[list[Portion]]) -> list[list[Portion]]:
        """Pad all parts of a step to one level, so that there are as many shapes as levels, not as combinations."""
        if not self.buckets:
            return pieces
        levels = [self.buckets[portion.name].level(portion.rows) for piece in pieces for portion in piece]
        if None in levels:  # an unusual step is not padded
            return pieces
        level = max(level for level in levels if level is not None)
        return [[replace(portion, filling=self._filling(portion, level)) for portion in piece] for piece in pieces]

    def _filling(self, portion: Portion, level: int) -> Filling:
        assert self.buckets
        buckets, rows = self.buckets[portion.name], len(portion.rows)
        return Filling(buckets.size(rows, level), slots=buckets.slots(rows, level), longest=buckets.longest)
