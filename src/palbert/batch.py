"""PackedBatch: the unit of work, real tokens only, several tasks side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """One task's share of a batch, or that of one of its extra sets.

    A siamese pair takes two sequences: first all first sentences, then all second ones; so do triplets with three.
    """

    sequences: slice
    """The task's sequences in the batch."""
    tokens: slice
    """The task's tokens in the batch."""
    width: int = 1
    """Sequences per example: 1, 2 for siamese pairs, 3 for triplets."""
    labels: Tensor | None = None
    """Class indices (int64) or numbers (float32), one per example; None when predicting, and for triplets."""
    share: float = 1.0
    """The share of the step's examples of this set that this batch holds; below 1 when accumulating."""
    taught: Tensor | None = None
    """What the task's teachers say, as outputs, (examples, teachers, outputs)."""
    task: str = ""
    """Whose head answers; the part's own name unless given, as for extra sets."""
    answered: bool = True
    """Whether the head answers at all; triplets are only compared."""
    filling: int = 0
    """Sequences after the part's own that only fill its tokens up to a round size; some may be empty."""

    @property
    def slots(self) -> slice:
        """The part's sequences with those that fill it up."""
        return slice(self.sequences.start, self.sequences.stop + self.filling)

    @property
    def examples(self) -> int:
        """The number of examples."""
        return int(self.sequences.stop - self.sequences.start) // self.width


@dataclass(frozen=True)
class PackedBatch:
    """Sequences laid end to end without padding."""

    ids: Tensor
    """Token ids, (tokens,)."""
    positions: Tensor
    """Place of each token in its sequence, from 0, (tokens,)."""
    types: Tensor
    """Token types: 0, or 1 for the second sentence of a joint pair, (tokens,)."""
    starts: Tensor
    """Cumulative sequence lengths, int32, (sequences + 1,)."""
    max_length: int
    """Length of the longest sequence, or more: no sequence is longer."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """The share of each task, by the name of the task or of its extra set."""

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.ids.shape[0]

    @property
    def sequences(self) -> int:
        """The number of sequences."""
        return self.starts.shape[0] - 1

    @property
    def shares(self) -> dict[str, float]:
        """The share of the step's examples of each set that this batch holds."""
        return {name: part.share for name, part in self.parts.items()}

    def task_of(self, name: str) -> str:
        """Return the task that a part belongs to."""
        return self.parts[name].task or name

    def by_task(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Add up what the parts of each task have."""
        total: dict[str, Tensor] = {}
        for name, loss in losses.items():
            task = self.task_of(name)
            total[task] = total[task] + loss if task in total else loss
        return total

    @property
    def kind(self) -> Hashable:
        """All but the numbers themselves: batches of one kind can be computed by the same kernels."""
        parts = tuple(
            (
                name,
                *(part.sequences.start, part.sequences.stop, part.filling, part.tokens.start, part.tokens.stop),
                *(part.width, part.share, part.task, part.answered),
                *(None if values is None else (values.shape, values.dtype) for values in (part.labels, part.taught)),
            )
            for name, part in self.parts.items()
        )
        return self.tokens, self.sequences, self.max_length, parts

    def copy_(self, other: PackedBatch) -> None:
        """Take the numbers of a batch of the same kind, in place; asynchronously when that one is pinned."""
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine.copy_(theirs, non_blocking=True)

    def _tensors(self) -> Iterator[Tensor]:
        yield from (self.ids, self.positions, self.types, self.starts)
        for part in self.parts.values():
            yield from (values for values in (part.labels, part.taught) if values is not None)

    def to(self, device: torch.device | str) -> PackedBatch:
        """Copy to a device, asynchronously when the batch is pinned; back to the host, wait for it."""
        ahead = torch.device(device).type != "cpu"
        return self._with(lambda values: values.to(device, non_blocking=ahead))

    def pinned(self) -> PackedBatch:
        """Copy to memory that a CUDA device can read by itself."""
        return self._with(lambda values: values.pin_memory())

    def _with(self, change: Callable[[Tensor], Tensor]) -> PackedBatch:
        parts = {
            name: replace(
                part,
                labels=None if part.labels is None else change(part.labels),
                taught=None if part.taught is None else change(part.taught),
            )
            for name, part in self.parts.items()
        }
        return replace(
            self,
            ids=change(self.ids),
            positions=change(self.positions),
            types=change(self.types),
            starts=change(self.starts),
            parts=parts,
        )

    def only(self, tasks: Collection[str]) -> PackedBatch:
        """Return the share of some tasks; the batch itself where that is all of it."""
        if all(name in tasks for name in self.parts):
            return self
        return self._laid_out({name: name for name in self.parts if name in tasks})

    def twice(self, names: Collection[str]) -> PackedBatch:
        """Return a batch in which some parts come once more, right behind themselves, by another name (`again`)."""
        if not any(name in names for name in self.parts):
            return self
        order = {}
        for name in self.parts:
            order[name] = name
            if name in names:
                order[again(name)] = name
        return self._laid_out(order)

    def _laid_out(self, order: Mapping[str, str]) -> PackedBatch:
        """Lay parts end to end; for each name, the part whose numbers it has."""
        parts, tokens, sequences = {}, 0, 0
        for name, source in order.items():
            part = self.parts[source]
            next_token = tokens + part.tokens.stop - part.tokens.start
            next_sequence = sequences + part.sequences.stop - part.sequences.start
            parts[name] = replace(
                part,
                task=self.task_of(source),
                tokens=slice(tokens, next_token),
                sequences=slice(sequences, next_sequence),
            )
            tokens, sequences = next_token, next_sequence + part.filling
        sources = [self.parts[source] for source in order.values()]
        lengths = self.starts.diff()
        ends = torch.cat([lengths[part.slots] for part in sources]).cumsum(0, dtype=self.starts.dtype)
        return replace(
            self,
            ids=torch.cat([self.ids[part.tokens] for part in sources]),
            positions=torch.cat([self.positions[part.tokens] for part in sources]),
            types=torch.cat([self.types[part.tokens] for part in sources]),
            starts=torch.cat([self.starts[:1], ends]),
            parts=parts,
        )


def again(name: str) -> str:
    """Return the name of a part that comes a second time; no task or set has a name with a space."""
    return f"{name} again"
