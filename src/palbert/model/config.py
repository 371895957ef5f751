"""EncoderConfig: the parts that an encoder is built from, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass

from palbert.errors import EncoderError, PalbertError, did_you_mean
from palbert.model.activations import ACTIVATIONS
from palbert.options import check_count, check_number, check_switch, shown

LEAST = {
    "vocabulary_size": 1, "hidden_size": 1, "embedding_size": 1, "layers": 1, "heads": 1, "intermediate_size": 1,
    "max_length": 1, "position_offset": 0, "type_vocabulary_size": 0, "relative_buckets": 0,
}  # fmt: skip
"""The least value of each field that is a whole number."""
LARGEST_SIZE = 1 << 24
"""The largest size: nobody has such an encoder, and products of three sizes are still within the range of torch."""
MOST_LAYERS = 1000
FAR = 128
"""Relative positions from this distance on share the last bucket."""
SWITCHES = ("pooler", "first_attention_norm", "attention_bias", "feed_forward_bias", "norm_bias")


@dataclass(frozen=True)
class EncoderConfig:
    """The parts and sizes of an encoder and how it trains; plain values, so that it can be stored as JSON."""

    family: str
    """The family of the checkpoint, such as `bert` or `distilbert`: a key of `FAMILIES`."""
    vocabulary_size: int
    """Rows of the word embedding table."""
    hidden_size: int
    """Width of a token between layers."""
    embedding_size: int
    """Width of the embedding tables; projected to the hidden size where it differs."""
    layers: int
    """Number of layers."""
    heads: int
    """Attention heads per layer; they share the hidden size."""
    intermediate_size: int
    """Width inside the feed-forward network."""
    max_length: int
    """Maximum number of tokens in a sequence."""
    position_offset: int = 0
    """Row of the position table that belongs to the first token."""
    type_vocabulary_size: int = 2
    """Rows of the token type table; 0 for encoders without token types."""
    activation: str = "gelu"
    """Feed-forward activation, a key of `ACTIVATIONS`."""
    norm_epsilon: float = 1e-12
    """Added to the variance in every norm."""
    dropout: float = 0.1
    """Share of the values dropped after the embeddings and after each attention and feed-forward step, in training."""
    attention_dropout: float = 0.1
    """Share of the attention probabilities dropped, in training."""
    relative_buckets: int = 0
    """Buckets of relative positions that bias the attention scores; 0 for none."""
    pooler: bool = False
    """Whether there is a dense tanh layer for the first token."""
    initializer_range: float = 0.02
    """Standard deviation of weights that are not loaded."""
    block: str = "post-norm"
    """Order of norms and residuals in a layer, a key of `BLOCKS`."""
    feed_forward: str = "plain"
    """What happens between the two feed-forward layers, a key of `FEED_FORWARDS`."""
    norm: str = "layer"
    """The norm, a key of `NORMS`."""
    positions: str = "table"
    """How positions enter: "table" adds a row of a table to each word, "rotary" rotates queries and keys."""
    rotary_bases: tuple[float, ...] = ()
    """The base of the rotary angles in each layer; empty unless positions are "rotary"."""
    windows: tuple[int, ...] = ()
    """Tokens on each side that a layer attends to, 0 for all of them; empty if every layer attends to all."""
    first_attention_norm: bool = True
    """Whether the first layer has a norm before (or after) its attention; else the norm there is the identity."""
    attention_bias: bool = True
    """Whether the linear layers around attention have a bias."""
    feed_forward_bias: bool = True
    """Whether the linear layers of the feed-forward network have a bias."""
    norm_bias: bool = True
    """Whether norms have a bias."""

    def __post_init__(self) -> None:
        try:
            self._check_values()
        except PalbertError as error:
            raise EncoderError(error.message, hint=error.hint) from None
        if self.hidden_size % self.heads:
            raise EncoderError(f"{self.heads} heads cannot share a hidden size of {self.hidden_size} evenly.")
        for name, wanted in (("rotary_bases", self.positions == "rotary"), ("windows", bool(self.windows))):
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)  # JSON has lists only
            if len(values) != (self.layers if wanted else 0):
                found = f"found {len(values)} for {self.layers} layers with {self.positions} positions"
                raise EncoderError(f"Expected {name} to have one value per layer, or none; {found}.")
        if self.rotary_bases and self.head_width % 2:
            raise EncoderError(f"Rotary positions need heads of an even width, found {self.head_width}.")

    def _check_values(self) -> None:
        """Refuse values of another type, and numbers out of their range: anybody can write a config.json."""
        if not isinstance(self.family, str):
            raise EncoderError(f"family: expected a name, found {shown(self.family)}.")
        for name, least in LEAST.items():
            most = MOST_LAYERS if name == "layers" else LARGEST_SIZE
            check_count(name, getattr(self, name), least=least, most=most)
        if self.relative_buckets and not 4 <= self.relative_buckets < 4 * FAR:
            raise EncoderError(
                f"relative_buckets: expected 0, or from 4 to {4 * FAR - 1}; found {self.relative_buckets}."
            )
        for name in SWITCHES:
            check_switch(name, getattr(self, name))
        for name in ("dropout", "attention_dropout"):
            check_number(name, getattr(self, name), least=0, below=1)
        check_number("norm_epsilon", self.norm_epsilon, least=0, most=1)
        check_number("initializer_range", self.initializer_range, least=0)
        for window in self.windows:
            check_count("windows", window)
        for base in self.rotary_bases:
            check_number("rotary_bases", base, above=0)
        if not isinstance(self.activation, str) or self.activation not in ACTIVATIONS:
            known = did_you_mean(str(self.activation), ACTIVATIONS)
            raise EncoderError(f"Unknown activation '{self.activation}'.", hint=known)

    @property
    def head_width(self) -> int:
        """Width of an attention head."""
        return self.hidden_size // self.heads
