"""PackedBatch: the unit of work, real tokens only, the rows of several training sets side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """One training set's share of a batch; when predicting, the rows of one task.

    A siamese pair takes two sequences: first all first sentences, then all second ones. Triplets take three likewise.
    """

    task: str
    """The task that the part belongs to: its pooling, adapter and head compute the outputs."""
    sequences: slice
    """The part's sequences in the batch."""
    tokens: slice
    """The part's tokens in the batch."""
    width: int = 1
    """Sequences per example: 1, 2 for siamese pairs, 3 for triplets."""
    labels: Tensor | None = None
    """As the target keeps them, (examples,) or (examples, classes); None when predicting, and for triplets."""
    weights: Tensor | None = None
    """What the loss of each example is multiplied by, (examples,); None where all count alike."""
    share: float = 1.0
    """The share of the step's examples of this set that this batch holds; below 1 when accumulating."""
    examples_by_rank: tuple[int, ...] = ()
    """The examples of this set that each process has in the step; 0 where its examples do not count."""
    teacher_outputs: Tensor | None = None
    """The outputs of the task's teachers, (examples, teachers, outputs)."""
    answered: bool = True
    """Whether the task's head computes outputs for the part; triplets have vectors only."""
    filling: int = 0
    """Padding sequences after the part's own, which fill its tokens up to a round size; some may be empty."""

    @property
    def slots(self) -> slice:
        """The part's sequences, padding ones included."""
        return slice(self.sequences.start, self.sequences.stop + self.filling)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Labels, weights and teachers' outputs by field, as far as there are any."""
        values = {"labels": self.labels, "weights": self.weights, "teacher_outputs": self.teacher_outputs}
        return {name: tensor for name, tensor in values.items() if tensor is not None}

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
    """Position of each token in its sequence, from 0, (tokens,)."""
    types: Tensor
    """Token types: 0, or 1 for the second sentence of a joint pair, (tokens,)."""
    starts: Tensor
    """Cumulative sequence lengths, int32, (sequences + 1,)."""
    max_length: int
    """An upper bound on the length of a sequence."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """The parts by the name of their training set; when predicting, by the name of the task."""

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

    def by_task(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sum the losses of the sets of each task."""
        total: dict[str, Tensor] = {}
        for name, loss in losses.items():
            task = self.parts[name].task
            total[task] = total[task] + loss if task in total else loss
        return total

    @property
    def kind(self) -> Hashable:
        """Everything but the values of the tensors: batches of one kind can share a CUDA graph."""
        parts = tuple(
            (
                name,
                *(part.sequences.start, part.sequences.stop, part.filling, part.tokens.start, part.tokens.stop),
                *(part.width, part.share, part.examples_by_rank, part.task, part.answered),
                *((key, values.shape, values.dtype) for key, values in part.tensors.items()),
            )
            for name, part in self.parts.items()
        )
        return self.tokens, self.sequences, self.max_length, parts

    def copy_(self, other: PackedBatch) -> None:
        """Copy the values of a batch of the same kind, in place; asynchronously when that one is pinned."""
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine.copy_(theirs, non_blocking=True)

    def _tensors(self) -> Iterator[Tensor]:
        yield from (self.ids, self.positions, self.types, self.starts)
        for part in self.parts.values():
            yield from part.tensors.values()

    def to(self, device: torch.device | str) -> PackedBatch:
        """Copy to a device, asynchronously when the batch is pinned; a copy to the host waits for the device."""
        if self.ids.device == torch.device(device):
            return self
        non_blocking = torch.device(device).type != "cpu"
        return self._with(lambda values: values.to(device, non_blocking=non_blocking))

    def pinned(self) -> PackedBatch:
        """Copy to page-locked memory, from which copies to a CUDA device are asynchronous."""
        return self._with(lambda values: values.pin_memory())

    def _with(self, change: Callable[[Tensor], Tensor]) -> PackedBatch:
        parts = {}
        for name, part in self.parts.items():
            changed: dict[str, Any] = {key: change(values) for key, values in part.tensors.items()}
            parts[name] = replace(part, **changed)
        return replace(
            self,
            ids=change(self.ids),
            positions=change(self.positions),
            types=change(self.types),
            starts=change(self.starts),
            parts=parts,
        )

    def only(self, names: Collection[str]) -> PackedBatch:
        """Return a batch of the named parts only; the batch itself if that is all of them."""
        if all(name in names for name in self.parts):
            return self
        return self._laid_out({name: name for name in self.parts if name in names})

    def of_sequences(self, sequences: slice, tokens: slice) -> PackedBatch:
        """Return a batch of some neighbouring sequences, whose tokens are given; there is one part, without labels."""
        [(name, part)] = self.parts.items()
        own = replace(
            part,
            sequences=slice(0, sequences.stop - sequences.start),
            tokens=slice(0, tokens.stop - tokens.start),
        )
        return replace(
            self,
            ids=self.ids[tokens],
            positions=self.positions[tokens],
            types=self.types[tokens],
            starts=self.starts[sequences.start : sequences.stop + 1] - tokens.start,
            parts={name: own},
        )

    def with_repeats(self, names: Collection[str]) -> PackedBatch:
        """Return a batch in which some parts are repeated, each right after itself, as `repeat_of(name)`."""
        if not any(name in names for name in self.parts):
            return self
        order = {}
        for name in self.parts:
            order[name] = name
            if name in names:
                order[repeat_of(name)] = name
        return self._laid_out(order)

    def _laid_out(self, order: Mapping[str, str]) -> PackedBatch:
        """Lay parts end to end; `order` maps the name of each new part to the part it is a copy of."""
        parts, tokens, sequences = {}, 0, 0
        for name, source in order.items():
            part = self.parts[source]
            next_token = tokens + part.tokens.stop - part.tokens.start
            next_sequence = sequences + part.sequences.stop - part.sequences.start
            parts[name] = replace(part, tokens=slice(tokens, next_token), sequences=slice(sequences, next_sequence))
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


def repeat_of(name: str) -> str:
    """Return the name of the repeat of a part; the names of sets have no spaces."""
    return f"{name} repeated"
