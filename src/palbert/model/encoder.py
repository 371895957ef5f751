"""The encoder: BERT and its relatives over packed tokens, told apart by configuration values alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from palbert.batch import PackedBatch
from palbert.errors import EncoderError, did_you_mean
from palbert.model.adapters.branches import PLAIN, NoBranches
from palbert.model.attention import Sequences, attend
from palbert.model.dropout import KEEP, Dropout, Seeds
from palbert.model.linear import Linear, half_copies
from palbert.model.lookup import embed, look_up, look_up_each
from palbert.model.norm import layer_norm
from palbert.model.residual import add_and_norm
from palbert.model.split import passing, shares, sharing

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}
"""The feed-forward activations, by the name a checkpoint's configuration gives them."""

RELATIVE_DISTANCE = 128
"""Relative positions from this distance on share the last bucket."""


@dataclass(frozen=True)
class EncoderConfig:
    """The shape of an encoder and how it trains; plain values, so that it can be stored as JSON."""

    family: str
    """Whose weight names the checkpoint uses, such as `bert` or `distilbert`."""
    vocabulary_size: int
    """Rows of the word embedding table."""
    hidden_size: int
    """Width of a token between layers."""
    embedding_size: int
    """Width of the embedding tables; projected to the hidden size where it differs."""
    layers: int
    """Number of layers."""
    heads: int
    """Attention heads of a layer; they share the hidden size."""
    intermediate_size: int
    """Width inside the feed-forward block."""
    max_length: int
    """Tokens of the longest sequence that has positions."""
    position_offset: int = 0
    """Row of the position table that belongs to the first token."""
    type_vocabulary_size: int = 2
    """Rows of the token type table; 0 for encoders without token types."""
    activation: str = "gelu"
    """Feed-forward activation, a key of `ACTIVATIONS`."""
    norm_epsilon: float = 1e-12
    """Added to the variance in every LayerNorm."""
    dropout: float = 0.1
    """Share of the values dropped after the embeddings and after each block, when training."""
    attention_dropout: float = 0.1
    """Share of the attention probabilities dropped, when training."""
    relative_buckets: int = 0
    """Buckets of relative positions that bias the attention scores; 0 for none."""
    pooler: bool = False
    """Whether there is a dense tanh layer for the first token."""
    initializer_range: float = 0.02
    """Standard deviation of weights that are not loaded."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            known = did_you_mean(self.activation, ACTIVATIONS)
            raise EncoderError(f"Unknown activation '{self.activation}'.", hint=known)
        if self.hidden_size % self.heads:
            raise EncoderError(f"{self.heads} heads cannot share a hidden size of {self.hidden_size} evenly.")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise EncoderError(f"Expected {name} from 0 to below 1, found {getattr(self, name)}.")


class Embeddings(nn.Module):
    """Word, position and token type tables, and the norm over their sum."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_size
        self.position_offset = config.position_offset
        self.word = _table(config.vocabulary_size, width)
        self.position = _table(config.max_length + config.position_offset, width)
        types = config.type_vocabulary_size
        self.token_type = _table(types, width) if types else None
        self.norm = nn.LayerNorm(width, eps=config.norm_epsilon)
        self.dropout = Dropout(config.dropout)
        self.project = Linear(width, config.hidden_size) if width != config.hidden_size else None

    def forward(self, words: Tensor, positions: Tensor, types: Tensor) -> Tensor:
        """Turn looked-up words, (tokens, embedding_size), into the first layer's input, (tokens, hidden)."""
        total = words + embed(self.position, positions + self.position_offset)
        if self.token_type is not None:
            # Encoders with one token type read joint pairs too: there, everything is of type 0.
            total = total + look_up(self.token_type.weight, types.clamp(max=self.token_type.num_embeddings - 1))
        hidden: Tensor = self.dropout(layer_norm(total, self.norm))
        output: Tensor = hidden if self.project is None else self.project(hidden)
        return output


class Layer(nn.Module):
    """Attention and a feed-forward block, each with its residual and a LayerNorm after it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.activation = ACTIVATIONS[config.activation]
        self.query_key_value = Linear(size, 3 * size)
        self.attention_output = Linear(size, size)
        self.attention_norm = nn.LayerNorm(size, eps=config.norm_epsilon)
        self.intermediate = Linear(size, config.intermediate_size)
        self.output = Linear(config.intermediate_size, size)
        self.norm = nn.LayerNorm(size, eps=config.norm_epsilon)
        self.dropout = Dropout(config.dropout)

    def forward(self, hidden: Tensor, sequences: Sequences, branches: NoBranches = PLAIN) -> Tensor:
        """Return the layer's output, (tokens, hidden)."""
        # Adapters of a block's output see what dropout has left; else it can wait for the sum, and share its kernel.
        early, late = (self.dropout, KEEP) if branches.adds else (KEEP, self.dropout)
        attended = branches.after_attention(early(self.attention(hidden, sequences, branches)))
        middle = add_and_norm(hidden, attended, self.attention_norm, late, sequences.seeds)
        fed = branches.after_feed_forward(early(self.output(self.activation(self.intermediate(middle)))))
        return add_and_norm(branches.beside(middle, hidden), fed, self.norm, late, sequences.seeds)

    def attention(self, hidden: Tensor, sequences: Sequences, branches: NoBranches = PLAIN) -> Tensor:
        """Return what the tokens of a sequence tell each other, (tokens, hidden)."""
        projected = branches.query_key_value(self.query_key_value(hidden), hidden)  # (tokens, 3 × hidden)
        fused = projected.view(len(hidden), 3, self.heads, -1)
        probability = self.attention_dropout if self.training else 0.0
        mixed = attend(fused, sequences, dropout=probability)  # (tokens, heads, width)
        output: Tensor = self.attention_output(mixed.flatten(1))
        return output


class Encoder(nn.Module):
    """A BERT-like encoder over packed tokens, with random weights until some are loaded."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        buckets = config.relative_buckets
        self.relative = _table(buckets, config.heads) if buckets else None
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if config.pooler else None
        self.through: Through = keep
        self.dropped: float | None = None
        self.apply(self._initialise)

    def forward(self, batch: PackedBatch, *, embeddings: Tensor | None = None, branches: NoBranches = PLAIN) -> Tensor:
        """Encode a batch.

        Args:
            batch: The packed sequences.
            embeddings: Taken in place of the looked-up words, (tokens, embedding_size); positions, token
                types, norm and dropout still apply.
            branches: The tasks' adapters; none unless given.

        Returns:
            The last layer's output, (tokens, hidden).
        """
        if batch.max_length > self.config.max_length:
            found = f"found one of {batch.max_length}"
            raise EncoderError(f"Expected sequences of at most {self.config.max_length} tokens, {found}.")
        with passing(batch), half_copies(self):
            sequences = self.sequences(batch)
            words = self.word_embeddings(batch.ids) if embeddings is None else embeddings
            hidden: Tensor = self.embeddings(words, batch.positions, batch.types)
            for number, layer in enumerate(self.layers):
                hidden = self.through(self, layer, hidden, sequences, branches.at(number))
        return hidden

    def word_embeddings(self, ids: Tensor) -> Tensor:
        """Look words up, (tokens,) to (tokens, embedding_size)."""
        return embed(self.embeddings.word, ids)

    @contextmanager
    def dropping(self, probability: float) -> Iterator[None]:
        """Drop this share of hidden values and attention probabilities for a time, in place of the encoder's own."""
        places: list[tuple[nn.Module, str]] = [
            *((module, "probability") for module in self.modules() if isinstance(module, Dropout)),
            *((layer, "attention_dropout") for layer in self.layers),
        ]
        former, outer = [getattr(module, name) for module, name in places], self.dropped
        try:
            for module, name in places:
                setattr(module, name, probability)
            self.dropped = probability
            yield
        finally:
            for (module, name), value in zip(places, former, strict=True):
                setattr(module, name, value)
            self.dropped = outer

    def sequences(self, batch: PackedBatch) -> Sequences:
        """Return where the sequences of a batch lie, and how their distances bias the attention scores."""
        if self.relative is None:
            return Sequences.of(batch)
        length, table, present = batch.max_length, self.relative.weight, shares()
        distances = torch.arange(1 - length, length, device=table.device)
        buckets = _buckets(distances, self.config.relative_buckets)
        if present is None or not table.requires_grad:
            return Sequences.of(batch, bias=_by_head(self.relative(buckets)))
        whole, each = Sequences.of(batch), look_up_each(table, buckets, present)
        stretches = [
            replace(Sequences.of(batch, parts=[part], bias=_by_head(found)), seeds=whole.seeds)
            for part, found in zip(batch.parts.values(), each, strict=True)
        ]
        return replace(whole, stretches=stretches)

    def parts(self) -> Iterator[tuple[str, int, nn.Module]]:
        """Name the parts, each with the number of layers above it; what all layers share lies below them all."""
        count = len(self.layers)
        yield "embeddings", count, self.embeddings
        for number, layer in enumerate(self.layers):
            yield f"layers.{number}", count - 1 - number, layer
        if self.relative is not None:
            yield "relative", count, self.relative
        if self.pooler is not None:
            yield "pooler", 0, self.pooler

    def pool(self, first: Tensor) -> Tensor:
        """Pass first tokens, (sequences, hidden), through the dense tanh layer."""
        if self.pooler is None:
            raise EncoderError(
                f"This {self.config.family} encoder has no pooler.",
                hint="Take the first token or a mean instead.",
            )
        return torch.tanh(self.pooler(first))

    def _initialise(self, module: nn.Module) -> None:
        # On the meta device there is nothing to fill in, and torch would load its compiler to do so.
        if isinstance(module, nn.Linear | nn.Embedding) and not module.weight.is_meta:
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


Through = Callable[[Encoder, nn.Module, Tensor, Sequences, NoBranches], Tensor]
"""How a pass goes through a layer."""


def keep(encoder: Encoder, layer: nn.Module, hidden: Tensor, sequences: Sequences, branches: NoBranches) -> Tensor:
    """Run a layer, and keep what its gradient needs."""
    output: Tensor = layer(hidden, sequences, branches)
    return output


def recompute(encoder: Encoder, layer: nn.Module, hidden: Tensor, sequences: Sequences, branches: NoBranches) -> Tensor:
    """Run a layer and keep its input alone; the backward pass runs it once more, with the same random numbers.

    Chen et al. 2016, arXiv:1604.06174, with every layer as a segment.
    """
    if not torch.is_grad_enabled():
        return keep(encoder, layer, hidden, sequences, branches)
    once_more = _OnceMore(encoder, layer, [sequences.seeds, *branches.seeds])
    output: Tensor = checkpoint(
        layer, hidden, sequences, branches, use_reentrant=False, context_fn=lambda: (nullcontext(), once_more)
    )
    return output


class _OnceMore(AbstractContextManager[None]):
    """What held for a time when a layer was run; the backward pass, or several, come when it is over."""

    def __init__(self, encoder: Encoder, layer: nn.Module, seeds: Sequence[Seeds]) -> None:
        self.encoder, self.layer, self.shares = encoder, layer, shares()
        self.dropped, self.places = encoder.dropped, [(each, each.place) for each in seeds]

    def __enter__(self) -> None:
        for seeds, place in self.places:
            seeds.place = place
        self.contexts = ExitStack()
        self.contexts.enter_context(sharing(self.shares))
        self.contexts.enter_context(half_copies(self.layer))
        if self.dropped is not None:
            self.contexts.enter_context(self.encoder.dropping(self.dropped))

    def __exit__(self, *_: object) -> None:
        self.contexts.close()


def _table(rows: int, width: int) -> nn.Embedding:
    """Make an embedding whose weights are still to be set."""
    table: nn.Embedding = nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False)  # type: ignore[no-untyped-call]
    return table


def _by_head(found: Tensor) -> Tensor:
    """Turn what was looked up for each distance into a bias, (heads, distances)."""
    return found.t().contiguous()


def _buckets(distances: Tensor, buckets: int) -> Tensor:
    """Put distances from query to key into buckets: half for each direction; far ones share, by log.

    arXiv:1910.10683, section 2.1, as MPNet (arXiv:2004.09297) takes it.
    """
    half = buckets // 2
    near = half // 2
    distance = distances.abs()
    far = (distance.clamp(min=1).float() / near).log() / math.log(RELATIVE_DISTANCE / near) * (half - near)
    bucket = torch.where(distance < near, distance, (near + far.long()).clamp(max=half - 1))
    return bucket + half * (distances > 0)
