"""Houlsby adapters: the formula of the paper, before the residuals."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from palbert.model.adapters import Houlsby


def test_bottlenecks_are_placed_before_the_residuals(filled: Any, check: Any, plain_layer: Any) -> None:
    adapter = filled(Houlsby(24, layers=2, size=4))

    def step(number: int, layer: Any, hidden: Tensor) -> Tensor:
        fed = tuple(
            lambda x, each=each[number]: x + each.up(F.gelu(each.down(x)))
            for each in (adapter.attention, adapter.feed_forward)
        )
        return plain_layer(layer, hidden, fed=fed)  # type: ignore[no-any-return]

    check(adapter, step)


def test_adapters_of_different_widths_are_not_computed_together() -> None:
    assert Houlsby(24, layers=2, size=4).shape == Houlsby(24, layers=2, size=4).shape
    assert Houlsby(24, layers=2, size=4).shape != Houlsby(24, layers=2, size=5).shape
