"""Feed-forward networks: their formulas, and widths that fit the linear layers around them."""

from __future__ import annotations

import pytest
import torch

from palbert.model.activations import ACTIVATIONS
from palbert.model.feed_forward import FEED_FORWARDS


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_the_outputs_of_the_first_layer_become_the_inputs_of_the_second(name: str) -> None:
    part = FEED_FORWARDS[name]
    assert part("gelu")(torch.randn(5, part.outputs(12))).shape == (5, 12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_first_half_is_activated_and_the_second_is_its_gate(activation: str) -> None:
    values = torch.randn(5, 12)
    activated = ACTIVATIONS[activation](values)
    assert torch.equal(FEED_FORWARDS["plain"](activation)(values), activated)
    torch.testing.assert_close(FEED_FORWARDS["gated"](activation)(values), activated[:, :6] * values[:, 6:])
