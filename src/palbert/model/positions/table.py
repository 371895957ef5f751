"""PositionTable: a learned vector for each place in a sequence, added to the words."""

from __future__ import annotations

from torch import Tensor

from palbert.model.lookup import Table


class PositionTable(Table):
    """A row for each position.

    Args:
        positions: Number of positions.
        width: Width of a row.
        offset: Rows before that of the first position, as RoBERTa has them.
    """

    def __init__(self, positions: int, width: int, *, offset: int) -> None:
        super().__init__(positions + offset, width)
        self.offset = offset

    def forward(self, positions: Tensor) -> Tensor:
        """Look positions up, (tokens,) to (tokens, width)."""
        return super().forward(positions + self.offset)
