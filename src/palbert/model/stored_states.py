"""StoredStates: the output of an encoder that is not trained, looked up in a table instead of computed again."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.model.adapters import PLAIN
from palbert.model.adapters.branches import Branches
from palbert.model.encoder import Encoder
from palbert.model.multitask import MultiTaskModel


class StoredStates(nn.Module):
    """Takes the place of an encoder for batches whose ids are rows of a table of its states.

    Args:
        table: The states, (states, hidden); adapters have been applied to them.
        encoder: The encoder that has computed them; its pooler is used as it is.
    """

    def __init__(self, table: Tensor, encoder: Encoder) -> None:
        super().__init__()
        self.table = table
        self.encoder = encoder
        self.config = encoder.config

    def forward(self, batch: PackedBatch, *, embeddings: Tensor | None = None, branches: Branches = PLAIN) -> Tensor:
        """Look the states of a batch up, (tokens, hidden)."""
        assert embeddings is None and branches is PLAIN, "stored states cannot be computed with other inputs"
        return self.table.index_select(0, batch.ids)

    def pool(self, first: Tensor) -> Tensor:
        """Pass first tokens, (sequences, hidden), through the encoder's dense tanh layer."""
        return self.encoder.pool(first)


def heads_on_states(model: MultiTaskModel, table: Tensor, tasks: Collection[str]) -> MultiTaskModel:
    """Return a model that has the poolings and heads of some tasks of another model, and stored states below them."""
    return MultiTaskModel(
        StoredStates(table, model.encoder),  # type: ignore[arg-type]
        heads={name: model.heads[name] for name in tasks},
        poolings={name: model.poolings[name] for name in tasks},  # type: ignore[misc]
        relation=model.relation,
        related=model.related,
    )
