"""Low-rank layers: the formula of the paper."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from palbert.model.adapters import LowRank


@pytest.mark.parametrize("shared", [True, False])
def test_a_low_rank_layer_is_two_projections(shared: bool, filled: Any, check: Any, plain_layer: Any) -> None:
    adapter = filled(LowRank(24, layers=2, size=4, shared_projections=shared))

    def step(number: int, layer: Any, hidden: Tensor) -> Tensor:
        place = 0 if shared else number
        return plain_layer(layer, hidden) + adapter.up[place](adapter.down[place](hidden))  # type: ignore[no-any-return]

    check(adapter, step)


def test_shared_projections_equal_those_of_one_layer() -> None:
    one, other = (LowRank(24, layers=3, size=4, shared_projections=shared) for shared in (True, False))
    assert (len(one.down), len(other.down)) == (1, 3)
    assert one.shape != other.shape
