"""PaddedModel: a trained model over padded texts, of operations that a graph for other machines can record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from palbert.model.adapters import PLAIN, Adapter, Additions, Branches
from palbert.model.adapters.groups import Groups
from palbert.model.attention.rectangle import Rectangle
from palbert.model.encoder import Encoder
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Pooling
from palbert.model.positions.rotary import Rotation


class OneAdapter(Branches):
    """What one adapter adds to all tokens.

    Args:
        additions: What the adapter adds.
        texts: Where the tokens lie.
        layer: The layer that it is added in.
    """

    adapts_outputs = True

    def __init__(self, additions: Additions, texts: Rectangle, layer: int = 0) -> None:
        self.additions, self.texts, self.layer = additions, texts, layer

    def at(self, layer: int) -> OneAdapter:
        """Return what is added in a layer."""
        return OneAdapter(self.additions, self.texts, layer)

    def ready(self) -> OneAdapter:
        """Return itself."""
        return self

    def query_key_value(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add to the fused projection."""
        return _add(total, self.additions.query_key_value(self.layer, hidden))

    def after_attention(self, total: Tensor) -> Tensor:
        """Add to the output of attention."""
        return _add(total, self.additions.after_attention(self.layer, total))

    def after_feed_forward(self, total: Tensor) -> Tensor:
        """Add to the output of the feed-forward network."""
        return _add(total, self.additions.after_feed_forward(self.layer, total))

    def parallel(self, total: Tensor, hidden: Tensor) -> Tensor:
        """Add the branch that runs in parallel to the layer."""
        return _add(total, self.additions.parallel(self.layer, hidden, self.texts))


def _add(total: Tensor, added: Tensor | None) -> Tensor:
    return total if added is None else total + added


class PaddedModel(nn.Module):
    """The outputs of several tasks for padded texts; tasks with the same adapter, or none, share a pass.

    A siamese task pairs the first half of the texts with the second half: it has an output for every two texts.

    Args:
        model: The model, in float32 on the CPU, whose layers were not replaced for inference.
        sequences: The tasks, and how many sequences an example of each takes: 2 for siamese pairs, else 1.
    """

    def __init__(self, model: MultiTaskModel, sequences: Mapping[str, int]) -> None:
        super().__init__()
        self.model = model
        self.sequences = dict(sequences)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return the outputs of each task, (examples, outputs), from (texts, length) each."""
        outputs: dict[str, Tensor] = {}
        for owner, tasks in self.passes():
            adapter = self.model.adapters[owner] if owner else None
            states = padded_states(self.model.encoder, ids, mask, types, adapter)  # type: ignore[arg-type]
            for task in tasks:
                outputs[task] = self._answer(task, states, mask)
        return tuple(outputs[task] for task in self.sequences)

    def passes(self) -> list[tuple[str, list[str]]]:
        """Return the passes of the encoder: the owner of the adapter, "" for none, and the tasks."""

        def owner(task: str) -> str:
            return self.model.adapter_of.get(task, "")

        return [(name, list(tasks)) for name, tasks in groupby(sorted(self.sequences, key=owner), key=owner)]

    def _answer(self, task: str, states: Tensor, mask: Tensor) -> Tensor:
        """Return a task's outputs, (examples, outputs), from the states, (texts, length, hidden)."""
        model, pooling = self.model, self.model.poolings[task]
        assert isinstance(pooling, Pooling)
        vectors = pooling.padded(states, mask)
        if pooling.through_pooler:
            vectors = model.encoder.pool(vectors)
        if task in model.related:
            vectors = model.relation(vectors)
        outputs: Tensor = model.heads[task](*self._sides(vectors, self.sequences[task]))
        return outputs

    @staticmethod
    def _sides(vectors: Tensor, sequences: int) -> Sequence[Tensor]:
        if sequences == 1:
            return [vectors]
        pairs = vectors.shape[0] // 2
        return [vectors[:pairs], vectors[pairs : 2 * pairs]]


def padded_states(
    encoder: Encoder, ids: Tensor, mask: Tensor, types: Tensor | None = None, adapter: Adapter | None = None
) -> Tensor:
    """Return the encoder's output for padded texts, (texts, length, hidden).

    Args:
        encoder: The encoder.
        ids: Token ids, (texts, length).
        mask: 1 for tokens of the text, 0 for padding.
        types: Token types; 0 unless given.
        adapter: Runs on all tokens.
    """
    place = torch.arange(ids.shape[1], device=ids.device)
    positions = place.expand_as(ids).flatten()
    texts = _rectangle(encoder, mask, place, positions)
    branches: Branches = PLAIN
    if adapter is not None:
        branches = OneAdapter(adapter.together([adapter], Groups([texts.tokens], texts.starts)), texts)
    flat_types = torch.zeros_like(positions) if types is None else types.flatten()
    hidden: Tensor = encoder.embeddings(encoder.word_embeddings(ids.flatten()), positions, flat_types)
    for number, layer in enumerate(encoder.layers):
        hidden = layer(hidden, texts, branches.at(number))
    return encoder.final_norm(hidden).view(*ids.shape, -1)  # type: ignore[no-any-return]


def _rectangle(encoder: Encoder, mask: Tensor, place: Tensor, positions: Tensor) -> Rectangle:
    config = encoder.config
    rotations = {base: Rotation.of(positions, base=base, width=config.head_width) for base in config.rotary_bases}
    relative = None if encoder.relative is None else encoder.relative.between(place)
    return Rectangle.of_mask(mask, rotations=rotations, relative=relative)
