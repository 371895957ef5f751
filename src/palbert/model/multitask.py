"""MultiTaskModel: one encoder pass over all tokens, then each task's pooling and head on its own slice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.model.adapters import PLAIN, Adapter, AdapterBranches
from palbert.model.encoder import Encoder
from palbert.model.pooling import Pooling


class PerTask(nn.ModuleDict):
    """Modules by task name; every name is allowed, even one that torch's own classes use, such as "type"."""

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Add a module without torch's check that no attribute has this name."""
        self._modules[name] = module  # type: ignore[assignment]

    def train(self, mode: bool = True) -> PerTask:
        """Switch all modules; `training` is torch's own flag, even where a task has that name."""
        object.__setattr__(self, "training", mode)
        for module in self.values():
            module.train(mode)
        return self


class MultiTaskModel(nn.Module):
    """A shared encoder with a pooling, a head and possibly an adapter per task, addressed by the task's name."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        heads: Mapping[str, nn.Module],
        poolings: Mapping[str, Pooling],
        adapters: Mapping[str, Adapter] | None = None,
        relation: nn.Module | None = None,
        related: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = PerTask(heads)
        self.poolings = PerTask(poolings)
        # Tasks may share an adapter: it is kept once, under the name of the first task that has it.
        owners: dict[int, str] = {}
        for task, adapter in (adapters or {}).items():
            owners.setdefault(id(adapter), task)
        self.adapters = PerTask({owners[id(adapter)]: adapter for adapter in (adapters or {}).values()})
        self.adapter_of = {task: owners[id(adapter)] for task, adapter in (adapters or {}).items()}

        self.relation = nn.Identity() if relation is None else relation
        self.related = frozenset(related)

    def forward(self, batch: PackedBatch, *, embeddings: Tensor | None = None) -> dict[str, Tensor]:
        """Return the outputs of each part of the batch that is answered, (examples, outputs), in float32."""
        return self.answers(batch, self.vectors(batch, embeddings=embeddings))

    def vectors(self, batch: PackedBatch, *, embeddings: Tensor | None = None) -> dict[str, Tensor]:
        """Return each part's pooled vectors, (sequences, hidden); `embeddings` replace the looked-up words."""
        hidden = self.states(batch, embeddings=embeddings)
        return {name: self._pool(hidden, batch, part) for name, part in batch.parts.items()}

    def states(self, batch: PackedBatch, *, embeddings: Tensor | None = None) -> Tensor:
        """Return the encoder's output, (tokens, hidden), with each part's adapter; `embeddings` replace the words."""
        adapters = {task: self.adapters[owner] for task, owner in self.adapter_of.items()}
        branches = AdapterBranches(adapters, batch) if adapters else PLAIN  # type: ignore[arg-type]
        hidden: Tensor = self.encoder(batch, embeddings=embeddings, branches=branches)
        return hidden

    def answers_of(self, tasks: Iterable[str], states: Tensor, batch: PackedBatch, part: Part) -> dict[str, Tensor]:
        """Return the outputs of several tasks for one part of a batch, from the encoder's output for the batch.

        The tasks must have the same adapter as the part's own task, or all of them none.
        """
        parts = {task: replace(part, task=task) for task in tasks}
        vectors = {task: self._pool(states, batch, each) for task, each in parts.items()}
        return self.answers(replace(batch, parts=parts), vectors)

    def _pool(self, hidden: Tensor, batch: PackedBatch, part: Part) -> Tensor:
        """Return the vectors of one part, (sequences, hidden)."""
        return self.pooled(hidden, batch, part, pooling=self.poolings[part.task])  # type: ignore[arg-type]

    def pooled(self, hidden: Tensor, batch: PackedBatch, part: Part, *, pooling: Pooling) -> Tensor:
        """Return the vectors of one part by the given pooling, (sequences, hidden)."""
        vectors: Tensor = pooling(hidden, batch, part)
        return self.encoder.pool(vectors) if pooling.through_pooler else vectors

    def answers(self, batch: PackedBatch, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs of each part that is answered, (examples, outputs), in float32, given its vectors."""
        outputs = {}
        answered = {name: part for name, part in batch.parts.items() if part.answered}
        for name, pooled in self.head_inputs(replace(batch, parts=answered), vectors).items():
            part = answered[name]
            with torch.autocast(pooled.device.type, enabled=False):  # bf16 is too coarse for grades and probabilities
                outputs[name] = self.heads[part.task](*pooled.float().chunk(part.width))
        return outputs

    def head_inputs(self, batch: PackedBatch, vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what the head of each part sees, (sequences, hidden): vectors, after the layer of related tasks."""
        return {
            name: self.relation(vectors[name]) if part.task in self.related else vectors[name]
            for name, part in batch.parts.items()
        }

    def parts_of_others(self, tasks: Collection[str]) -> Iterator[nn.Module]:
        """Yield the heads, poolings, adapters and the relational layer that none of these tasks uses."""
        for parts in (self.heads, self.poolings):
            yield from (part for name, part in parts.items() if name not in tasks)
        used = {owner for task, owner in self.adapter_of.items() if task in tasks}
        yield from (adapter for owner, adapter in self.adapters.items() if owner not in used)
        if self.related.isdisjoint(tasks):
            yield self.relation

    def roles(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield the parts that may have learning rates of their own, each with its role."""
        yield "encoder", self.encoder
        yield "adapters", self.adapters
        yield "heads", self.heads
        yield "heads", self.relation
        yield "heads", self.poolings

    def encoder_parts(self) -> Iterator[tuple[str, int, nn.Module]]:
        """Yield the encoder's parts by name, each with the number of layers above it."""
        for name, above, module in self.encoder.parts():
            yield f"encoder.{name}", above, module
