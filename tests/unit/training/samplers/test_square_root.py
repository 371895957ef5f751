"""Square root: between proportional and even draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.training.samplers import SquareRoot

Make = Callable[..., Any]


@pytest.mark.parametrize("epoch", [1, 2, 5])
def test_square_root_probabilities_follow_the_formula(sampler: Make, by_formula: Make, epoch: int) -> None:
    assert sampler(SquareRoot).probabilities(epoch) == pytest.approx(by_formula(0.5))
