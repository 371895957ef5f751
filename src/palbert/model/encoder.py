"""Encoder: a transformer over packed tokens, built from the parts that its configuration names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.errors import EncoderError, did_you_mean
from palbert.model.adapters.branches import PLAIN, Branches
from palbert.model.attention import Sequences
from palbert.model.attention.self_attention import SelfAttention
from palbert.model.blocks import BLOCKS, Block
from palbert.model.config import EncoderConfig
from palbert.model.dropout import Dropout
from palbert.model.embeddings import Embeddings
from palbert.model.feed_forward import FEED_FORWARDS
from palbert.model.linear import Linear, half_copies
from palbert.model.lookup import Table
from palbert.model.norm import NORMS
from palbert.model.positions.relative import RelativeBias
from palbert.model.positions.rotary import Rotation
from palbert.model.positions.table import PositionTable
from palbert.model.recompute import RunLayer, keep_activations
from palbert.model.split import begin_pass

POSITIONS = ("table", "rotary")
"""Known names of positions in a configuration."""
SPLITTABLE = {
    Embeddings, SelfAttention, Linear, Table, PositionTable, RelativeBias, Dropout, nn.Identity, nn.ModuleList,
    *BLOCKS.values(), *FEED_FORWARDS.values(), *NORMS.values(),
}  # fmt: skip
"""Modules with gradients that can be split by task; not their subclasses, which may compute something else."""


class Encoder(nn.Module):
    """A transformer encoder over packed tokens, with random weights until some are loaded."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        _check_names(config)
        self.config = config
        block, norm = BLOCKS[config.block], NORMS[config.norm]
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(block(config, number) for number in range(config.layers))
        self.final_norm: nn.Module = nn.Identity()
        if block.has_final_norm:
            self.final_norm = norm(config.hidden_size, eps=config.norm_epsilon, bias=config.norm_bias)
        buckets = config.relative_buckets
        self.relative = RelativeBias(buckets, config.heads) if buckets else None
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if config.pooler else None
        self.run_layer: RunLayer = keep_activations
        """How a layer is run in training."""
        self.temporary_dropout: float | None = None
        """The dropout inside `with_dropout`."""
        self.apply(self._initialise)

    @classmethod
    def without_weights(cls, config: EncoderConfig) -> Encoder:
        """Build an encoder on the meta device, for weights that will be loaded: no random ones are drawn."""
        with torch.device("meta"):
            return cls(config)

    def forward(self, batch: PackedBatch, *, embeddings: Tensor | None = None, branches: Branches = PLAIN) -> Tensor:
        """Encode a batch.

        Args:
            batch: The packed sequences.
            embeddings: Used instead of the looked-up words, (tokens, embedding_size); positions, token
                types, norm and dropout still apply.
            branches: The tasks' adapters; none unless given.

        Returns:
            The encoder's output, (tokens, hidden).
        """
        if batch.max_length > self.config.max_length:
            found = f"found one of {batch.max_length}"
            raise EncoderError(f"Expected sequences of at most {self.config.max_length} tokens, {found}.")
        with begin_pass(batch), half_copies(self):
            sequences = self.sequences(batch)
            words = self.word_embeddings(batch.ids) if embeddings is None else embeddings
            hidden: Tensor = self.embeddings(words, batch.positions, batch.types)
            for number, layer in enumerate(self.layers):
                hidden = self.run_layer(self, layer, hidden, sequences, branches.at(number))
            output: Tensor = self.final_norm(hidden)
        return output

    def word_embeddings(self, ids: Tensor) -> Tensor:
        """Look words up, (tokens,) to (tokens, embedding_size)."""
        found: Tensor = self.embeddings.word(ids)
        return found

    def sequences(self, batch: PackedBatch) -> Sequences:
        """Return where the sequences of a batch lie, and what their positions do to attention."""
        sequences = Sequences.of(batch)
        if self.config.rotary_bases:
            width = self.config.head_width
            bases = dict.fromkeys(self.config.rotary_bases)
            rotations = {base: Rotation.of(batch.positions, base=base, width=width) for base in bases}
            sequences = replace(sequences, rotations=rotations)
        return sequences if self.relative is None else self.relative.add_to(sequences, batch)

    @contextmanager
    def with_dropout(self, probability: float) -> Iterator[None]:
        """Use another dropout for hidden values and attention probabilities inside the context."""
        modules = [module for module in self.modules() if isinstance(module, Dropout | SelfAttention)]
        former, outer = [module.probability for module in modules], self.temporary_dropout
        try:
            for module in modules:
                module.probability = probability
            self.temporary_dropout = probability
            yield
        finally:
            for module, value in zip(modules, former, strict=True):
                module.probability = value
            self.temporary_dropout = outer

    def parts(self) -> Iterator[tuple[str, int, nn.Module]]:
        """Yield the parts by name, each with the number of layers above it; shared parts count as below all layers."""
        count = len(self.layers)
        yield "embeddings", count, self.embeddings
        for number, layer in enumerate(self.layers):
            yield f"layers.{number}", count - 1 - number, layer
        if BLOCKS[self.config.block].has_final_norm:
            yield "final_norm", 0, self.final_norm
        if self.relative is not None:
            yield "relative", count, self.relative
        if self.pooler is not None:
            yield "pooler", 0, self.pooler

    def trunk(self) -> nn.ModuleList:
        """Return the parts that every token passes through: all but the pooler."""
        return nn.ModuleList(module for name, _, module in self.parts() if name != "pooler")

    def unsplittable(self) -> list[str]:
        """Return the names of module classes with gradients that cannot be split by task."""
        kinds = {type(module) for module in self.trunk().modules()} - SPLITTABLE
        return sorted(kind.__name__ for kind in kinds | ({type(self)} - {Encoder}))

    def linear_layers(self) -> dict[str, nn.Module]:
        """Return all linear layers by name, those of the blocks by block and role."""
        named: dict[str, nn.Module | None] = {"embeddings.project": self.embeddings.project}
        for number, block in enumerate(self.blocks()):
            named |= {f"layers.{number}.{role}": layer for role, layer in block.linear_layers().items()}
        named["pooler"] = self.pooler
        return {name: layer for name, layer in named.items() if layer is not None}

    def blocks(self) -> Iterator[Block]:
        """Return the layers."""
        for layer in self.layers:
            assert isinstance(layer, Block)
            yield layer

    def pool(self, first: Tensor) -> Tensor:
        """Pass first tokens, (sequences, hidden), through the dense tanh layer."""
        if self.pooler is None:
            raise EncoderError(
                f"This {self.config.family} encoder has no pooler.",
                hint="Use the first token or a mean instead.",
            )
        return torch.tanh(self.pooler(first))

    def _initialise(self, module: nn.Module) -> None:
        # On the meta device there is nothing to fill in, and torch would load its compiler to do so.
        if isinstance(module, nn.Linear | nn.Embedding) and not module.weight.is_meta:
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _check_names(config: EncoderConfig) -> None:
    """Refuse a configuration that names a part that does not exist."""
    tables: dict[str, Mapping[str, object]] = {
        "block": BLOCKS,
        "feed_forward": FEED_FORWARDS,
        "norm": NORMS,
        "positions": dict.fromkeys(POSITIONS),
    }
    for setting, table in tables.items():
        name = getattr(config, setting)
        if not isinstance(name, str) or name not in table:
            raise EncoderError(f"Unknown {setting} '{name}' of an encoder.", hint=did_you_mean(str(name), table))
