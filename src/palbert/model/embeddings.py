"""Embeddings: from token ids to the input of the first layer."""

from __future__ import annotations

from torch import Tensor, nn

from palbert.model.config import EncoderConfig
from palbert.model.dropout import Dropout
from palbert.model.linear import Linear
from palbert.model.lookup import Table, look_up
from palbert.model.norm import NORMS
from palbert.model.positions.table import PositionTable


class Embeddings(nn.Module):
    """Word table, position and token type tables where the encoder has them, and the norm of their sum."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, types = config.embedding_size, config.type_vocabulary_size
        self.word = Table(config.vocabulary_size, width)
        has_table = config.positions == "table"
        self.position = PositionTable(config.max_length, width, offset=config.position_offset) if has_table else None
        self.token_type = Table(types, width) if types else None
        self.norm = NORMS[config.norm](width, eps=config.norm_epsilon, bias=config.norm_bias)
        self.dropout = Dropout(config.dropout)
        self.project = Linear(width, config.hidden_size) if width != config.hidden_size else None

    def forward(self, words: Tensor, positions: Tensor, types: Tensor) -> Tensor:
        """Turn looked-up words, (tokens, embedding_size), into the first layer's input, (tokens, hidden)."""
        total = words if self.position is None else words + self.position(positions)
        if self.token_type is not None:
            # Encoders with one token type read joint pairs too: there, everything is of type 0.
            total = total + look_up(self.token_type.weight, types.clamp(max=self.token_type.num_embeddings - 1))
        hidden: Tensor = self.dropout(self.norm(total))
        output: Tensor = hidden if self.project is None else self.project(hidden)
        return output
