"""Sequences: where the sequences of one pass lie, made once and shared by all layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.model.attention.padding import Padding, pad_group, similar_lengths
from palbert.model.dropout import Seeds
from palbert.model.positions.rotary import Rotation

SHORT = 128
"""Average length up to which the kernel is faster than flash attention with its large blocks."""


@dataclass(frozen=True)
class Sequences:
    """Where the sequences of one pass lie, what their positions do to attention, and the seeds of its kernels."""

    starts: Tensor
    """Cumulative sequence lengths, int32, (sequences + 1,); unused slots at the end have length 0."""
    tokens: int
    """The number of tokens."""
    max_length: int
    """Length of the longest sequence; a Python number, so that the host does not wait for the device."""
    bias: Tensor | None = None
    """Added to scores by distance from query to key, from 1 - max_length to max_length - 1, (heads, distances)."""
    rotations: Mapping[float, Rotation] = field(default_factory=dict)
    """How queries and keys are rotated, by the base of the angles."""
    window: int = 0
    """Tokens on each side that a token attends to; 0 for its whole sequence."""
    seeds: Seeds = field(default_factory=Seeds)
    """Random numbers for kernels with dropout."""
    by_part: Sequence[Sequences] = ()
    """The sequences of each part of the batch, with a bias of its own, where its gradient is split by task."""
    known_windows: dict[int, Sequences] = field(default_factory=dict)
    """Results of `within`, computed by the first layer with a window."""

    @classmethod
    def of(cls, batch: PackedBatch, *, parts: Sequence[Part] = ()) -> Sequences:
        """Take the sequences of a batch, or of consecutive parts of it."""
        if not parts:
            return cls(batch.starts, tokens=batch.tokens, max_length=batch.max_length)
        first, last = parts[0], parts[-1]
        starts = batch.starts[first.slots.start : last.slots.stop + 1]
        starts = starts - starts[0] if first.tokens.start else starts
        return cls(starts, tokens=last.tokens.stop - first.tokens.start, max_length=batch.max_length)

    def within(self, window: int) -> Sequences:
        """Return the same sequences with attention limited to `window` tokens on each side; 0 for no limit."""
        if not window or window >= self.max_length - 1:  # no sequence is longer
            return self
        if window not in self.known_windows:
            by_part = [part.within(window) for part in self.by_part]
            self.known_windows[window] = replace(self, window=window, by_part=by_part, known_windows={})
        return self.known_windows[window]

    @property
    def are_short(self) -> bool:
        """Whether blocks for long sequences would be mostly empty."""
        return self.tokens <= SHORT * (len(self.starts) - 1)

    @property
    def is_alone(self) -> bool:
        """Whether there is one sequence, and each of its tokens attends to all of them."""
        return len(self.starts) == 2 and not self.window

    @cached_property
    def scores(self) -> Tensor | None:
        """The bias of query i and key j, (heads, max_length, max_length); only padded attention needs it."""
        if self.bias is None:
            return None
        # Windows of `max_length` distances: the first belongs to the last query, so the order is reversed.
        return self.bias.unfold(1, self.max_length, 1).flip(1)

    @cached_property
    def padding(self) -> Padding:
        """The padding, computed when first needed: flash attention never needs it."""
        starts, lengths = self.starts[:-1], self.starts.diff()
        if starts.device.type != "cpu":  # one group, because only the device knows the lengths
            return self._padding([(starts, lengths, self.max_length, False)])
        lengths, order = lengths.sort(descending=True, stable=True)
        starts, known = starts[order], lengths.tolist()
        return self._padding(
            [
                (starts[begin:end], lengths[begin:end], known[begin], known[end - 1] == known[begin])
                for begin, end in similar_lengths(known)
            ]
        )

    def _padding(self, groups: Sequence[tuple[Tensor, Tensor, int, bool]]) -> Padding:
        """Pad groups of sequences: starts, lengths, the longest length, and whether all sequences have it."""
        bias = None if self.scores is None else self.scores.detach()
        return Padding(
            self.tokens,
            [
                pad_group(starts, lengths, longest, full=full, tokens=self.tokens, bias=bias, window=self.window)
                for starts, lengths, longest, full in groups
            ],
        )
