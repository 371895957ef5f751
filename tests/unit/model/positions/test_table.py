"""PositionTable: rows start at an offset."""

from __future__ import annotations

import torch
from torch import nn

from palbert.model.positions.table import PositionTable


def test_positions_start_at_the_offset() -> None:
    table = PositionTable(10, 4, offset=2)
    nn.init.normal_(table.weight)
    assert table.weight.shape == (12, 4)
    assert torch.equal(table(torch.tensor([0, 9, 3])), table.weight[[2, 11, 5]])
