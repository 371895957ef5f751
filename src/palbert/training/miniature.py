"""Miniature: a small batch that costs in proportion what a large one costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from palbert.batch import PackedBatch
from palbert.model.attention import Sequences


@dataclass(frozen=True)
class Scale:
    """One set's share of a batch as a number of examples of one length."""

    length: int
    """Tokens of each sequence."""
    examples: float
    """How many examples of that length have the tokens of the batch."""
    few: int
    """How many a miniature has, which may have twice as many too."""


FEW_TOKENS = 128
"""Tokens of a set in a miniature, roughly: enough to stand out against what does not grow."""


def scales(batches: Sequence[PackedBatch], device: torch.device) -> dict[str, Scale]:
    """Return the scale of every set in the batches of a step, which may be pieces; the largest of them counts."""
    length = _length(max(batches, key=lambda batch: batch.tokens), device)
    found: dict[str, Scale] = {}
    for batch in batches:
        for name, part in batch.parts.items():
            examples = (part.tokens.stop - part.tokens.start) / (part.width * length)
            if name not in found or examples > found[name].examples:
                few = max(1, min(int(examples) // 4, FEW_TOKENS // (part.width * length)))
                found[name] = Scale(length, examples, few)
    return found


def _length(batch: PackedBatch, device: torch.device) -> int:
    """Return the length at which tokens and attention scores are in the proportion that they have in a batch.

    The CPU pads sequences in groups of similar length, so that scores depend on all lengths: n sequences of length l
    have n l tokens and n l² scores. Elsewhere there are no scores, or all sequences are padded to the batch's
    longest, which a miniature keeps.
    """
    if device.type != "cpu":
        return max(1, round(batch.tokens / batch.sequences))
    shapes = [group.tokens.shape for group in Sequences.of(batch).padding.groups]
    scores = sum(sequences * length**2 for sequences, length in shapes)
    return max(1, min(round(scores / batch.tokens), batch.max_length))


def miniature(batch: PackedBatch, lengths: Mapping[str, int], examples: Mapping[str, int]) -> PackedBatch:
    """Make a batch of the same sets, each with so many examples of one length; the tokens repeat those of the batch."""
    parts, tokens = {}, []
    sizes: list[int] = []
    for name, part in batch.parts.items():
        length, sequences = lengths[name], part.width * examples[name]
        own = part.tokens.start + torch.arange(length) % (part.tokens.stop - part.tokens.start)
        rows = torch.arange(examples[name]) % part.examples
        begin, token = len(sizes), sum(sizes)
        tokens.append(own.repeat(sequences))
        sizes += [length] * sequences
        parts[name] = replace(
            part,
            sequences=slice(begin, len(sizes)),
            tokens=slice(token, sum(sizes)),
            filling=0,
            labels=None if part.labels is None else part.labels[rows],
            taught=None if part.taught is None else part.taught[rows],
        )
    chosen, lengths_of_all = torch.cat(tokens), torch.tensor([0, *sizes])
    places = torch.cat([torch.arange(size) for size in sizes])
    return replace(
        batch,
        ids=batch.ids[chosen],
        types=batch.types[chosen],
        positions=places.to(batch.positions.dtype),
        starts=lengths_of_all.cumsum(0).to(batch.starts.dtype),
        parts=parts,
    )
